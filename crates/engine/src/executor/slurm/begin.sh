
# Slurm signals this shell; the worker writes a checkpoint on USR1 and ends on TERM.
worker= signal= caught=
forward() {
    caught=yes signal=$1
    if [ -n "$worker" ]; then kill -s "$1" -- "$2$worker" 2>/dev/null; fi
}
trap 'forward USR1 ""' USR1
trap 'forward TERM -' TERM

job=${SLURM_JOB_ID:-0} restart=${SLURM_RESTART_COUNT:-0} node=${SLURMD_NODENAME:-unknown}
mark="{\"nonce\":\"$nonce\",\"job\":$job,\"restart\":$restart,\"node\":\"$node\""
put() {
    printf '%s\n' "$2" >"$folder/.$1.$job.$restart" && sync "$folder/.$1.$job.$restart" 2>/dev/null
    mv -f "$folder/.$1.$job.$restart" "$folder/$1"
}

# One job works on an attempt, once: not a second one of the same submission, not one that was given up, and
# not this one again after its worker has ended.
if [ -e "$folder/exit.json" ]; then exit 0; fi
( set -C; printf '%s\n' "$mark}" >"$folder/job.json" ) 2>/dev/null
[ -e "$folder/job.json" ] || { echo "this node cannot write to $folder" >&2; exit 1; }
if ! grep -q "\"job\":$job," "$folder/job.json" || [ -e "$folder/closed" ]; then
    echo "job $job has nothing to do here" >&2
    exit 0
fi

set -m
beat=0
( while sleep 15; do beat=$((beat + 1)); put heartbeat "$restart.$beat"; done ) >/dev/null 2>&1 &
heart=$!
disown
set +m

finish() {
    code=$?
    set +e
    kill -s KILL -- "-$heart" 2>/dev/null
    # A job that Slurm puts back into its queue goes on with this attempt.
    if [ -n "$requeue" ] && [ "$signal" = TERM ]; then exit "$code"; fi
    put exit.json "$mark,\"code\":$code}"
    exit "$code"
}
trap finish EXIT

export RAYON_NUM_THREADS="${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}"
set -e
