#!/bin/bash
# sbatch, squeue, sacct, scontrol and scancel by one name each, with its jobs in the folder $FAKE and faults
# on request: the first line of $FAKE/COMMAND.faults is one call's.
me=${0##*/}
echo "$me $*" >>"$FAKE/calls"
env | grep -E '^(SLURM_|SBATCH_|XDG_)' | grep -v '^SLURM_CONF=' >>"$FAKE/foreign"

if [ -e "$FAKE/down" ]; then
    echo "slurm: error: Unable to contact slurm controller (connect failure)" >&2
    exit 1
fi

fault() {
    exec 9>"$FAKE/lock"
    flock 9
    if [ -s "$FAKE/$me.faults" ]; then
        head -1 "$FAKE/$me.faults"
        sed -i 1d "$FAKE/$me.faults"
    fi
    exec 9>&-
}
fault=$(fault)

begin() { # a job's id
    local job=$FAKE/job.$1 names=() name
    IFS=, read -ra wanted <"$job.export"
    for name in "${wanted[@]}"; do [ "$name" = NONE ] || names+=("$name=${!name}"); done
    echo RUNNING >"$job.state"
    (
        cd "$(cat "$job.chdir")" || exit 1
        env -i HOME="$HOME" PATH="$PATH" "${names[@]}" SLURM_JOB_ID="$1" \
            SLURM_RESTART_COUNT="$(cat "$job.restarts")" SLURM_CPUS_ON_NODE=1 SLURMD_NODENAME=n1 \
            setsid bash "$(cat "$job.script")" >>"$(cat "$job.output")" 2>&1 &
        echo $! >"$job.pid"
        wait $!
        code=$?
        case $(cat "$job.state") in
        RUNNING) if [ $code = 0 ]; then state=COMPLETED; else state=FAILED; fi ;;
        COMPLETING) state="CANCELLED by 0" ;;
        *) exit ;;
        esac
        echo "$state" >"$job.state.new"
        mv "$job.state.new" "$job.state"
    ) </dev/null >/dev/null 2>&1 9>&- &
    until [ -s "$job.pid" ]; do sleep 0.01; done
}

signal_session() { # a signal, the leader of the session
    local stat line
    for stat in /proc/[0-9]*/stat; do
        read -r line 2>/dev/null <"$stat" || continue
        # pid (name) state parent group session
        set -- "$1" "$2" ${line##*) }
        [ "$6" != "$2" ] || kill -s "$1" "${line%% *}"
    done
}

list() { # what there is to say of each job that was not forgotten: a format
    local state id
    for state in "$FAKE"/job.*.state; do
        [ -e "$state" ] || continue
        id=${state#"$FAKE"/job.} id=${id%.state}
        if [ "$1" = squeue ]; then
            [ -e "$FAKE/job.$id.forgotten" ] || echo "$id|${word:-$(cat "$state")}|n1|None|$(cat "$FAKE/job.$id.name")"
        else
            echo "$id|$(cat "$state")|n1|0:0|$(cat "$FAKE/job.$id.name")"
        fi
    done
}

case $me in
sbatch)
    case $fault in deny*) echo "sbatch: error: Batch job submission failed: ${fault#deny }" >&2; exit 1 ;; esac
    exec 9>"$FAKE/lock"
    flock 9
    id=$(($(cat "$FAKE/next" 2>/dev/null || echo 100) + 1))
    echo $id >"$FAKE/next"
    exec 9>&-
    job=$FAKE/job.$id
    echo 0 >"$job.restarts"
    for argument; do
        case $argument in
        --chdir=* | --output=* | --export=*)
            name=${argument%%=*}
            echo "${argument#*=}" >"$job.${name#--}"
            ;;
        esac
    done
    echo "${!#}" >"$job.script"
    sed -n 's/^#SBATCH --job-name=//p' "${!#}" >"$job.name"
    if [ -e "$FAKE/hold" ]; then echo PENDING >"$job.state"; else begin $id; fi
    case $fault in
    lost*) echo "sbatch: error: Batch job submission failed: ${fault#lost }" >&2; exit 1 ;;
    silent) ;;
    hang) exec sleep 60 ;;
    banner) printf 'Welcome!\n7 nodes are down\n%s;north\nBye\n' $id ;;
    *) echo $id ;;
    esac
    ;;
squeue)
    case $fault in
    fail*) echo "slurm_load_jobs error: ${fault#fail }" >&2; exit 1 ;;
    cut) list squeue | head -c -8 ;;
    hide) ;;
    word*) word=${fault#word } list squeue ;;
    *) echo "*** maintenance on Monday ***"; list squeue ;;
    esac
    ;;
sacct)
    if [ -e "$FAKE/sacct.off" ]; then echo "Slurm accounting storage is disabled" >&2; exit 1; fi
    list sacct
    ;;
scontrol)
    id=${!#}
    if [ -e "$FAKE/job.$id.forgotten" ] || [ ! -e "$FAKE/job.$id.state" ]; then
        echo "slurm_load_jobs error: Invalid job id specified" >&2
        exit 1
    fi
    echo "JobId=$id JobName=x JobState=$(cat "$FAKE/job.$id.state") Reason=None"
    ;;
scancel)
    ids=() signal= pending=
    for argument; do
        case $argument in
        --signal=*) signal=${argument#--signal=} ;;
        --state=PENDING) pending=yes ;;
        -*) ;;
        *) ids+=("$argument") ;;
        esac
    done
    if [ -e "$FAKE/scancel.single" ] && [ ${#ids[@]} -gt 1 ]; then echo "scancel: one id at a time" >&2; exit 1; fi
    for id in "${ids[@]}"; do
        job=$FAKE/job.$id state=$(cat "$FAKE/job.$id.state")
        case $state in
        PENDING) [ -n "$signal" ] || echo CANCELLED >"$job.state" ;;
        RUNNING | COMPLETING)
            [ -z "$pending" ] || continue
            if [ "$signal" = USR1 ]; then kill -USR1 "$(cat "$job.pid")"; continue; fi
            echo COMPLETING >"$job.state"
            signal_session "${signal:-TERM}" "$(cat "$job.pid")"
            ;;
        esac
    done
    ;;
requeue) # not a command of Slurm's: what its own scheduler does
    job=$FAKE/job.$1
    echo $(($(cat "$job.restarts") + 1)) >"$job.restarts"
    begin "$1"
    ;;
esac
