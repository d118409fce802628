//! The job: its name, what it asks for, the script that it runs, and the files that script leaves.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use serde::Deserialize;
use spec::Place;

use crate::executor::Task;
use crate::protocol::{env, file};

/// What the job's script is kept in.
pub(super) const SCRIPT: &str = "job.sh";
/// Which job works on the attempt: the first one to begin.
pub(super) const CLAIM: &str = "job.json";
/// Written last, when the worker is gone.
pub(super) const EXIT: &str = "exit.json";
/// Nothing may begin here any more.
pub(super) const CLOSED: &str = "closed";
/// A number that grows while the job lives.
pub(super) const HEARTBEAT: &str = "heartbeat";

/// [`CLAIM`] and [`EXIT`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Mark {
    nonce: String,
    pub job: u64,
    /// Of the worker; 128 and more are signals, as a shell has it.
    #[serde(default)]
    pub code: i32,
}

impl Mark {
    /// The mark in an attempt's folder, if it is whole and this attempt's own.
    pub fn read(task: &Task, name: &str) -> Option<Self> {
        let text = std::fs::read(task.folder.join(name)).ok()?;
        serde_json::from_slice(&text).ok().filter(|mark: &Self| mark.nonce == task.nonce)
    }
}

/// A name that no other job has.
pub(super) fn job_name(task: &Task) -> String {
    let run = &task.run_id[task.run_id.len().saturating_sub(8)..];
    let nonce = task.nonce.get(..12).unwrap_or(&task.nonce);
    format!("pl-{run}-{}-a{}-{nonce}", task.stage, task.number)
}

/// Arguments of `sbatch`, apart from what the script itself asks for. Paths and variables stand here, where
/// nothing has to be quoted.
pub(super) fn arguments(task: &Task, place: &Place, cwd: &Path, variables: &[String]) -> Vec<OsString> {
    let comment = serde_json::json!({ "run": task.run_id, "stage": task.stage, "attempt": task.number });
    // By name: the values go from this process to the job without being written anywhere of ours.
    let export = if variables.is_empty() { "NONE".to_owned() } else { variables.join(",") };
    let joined = |option: &str, value: &OsStr| {
        let mut argument = OsString::from(option);
        argument.push(value);
        argument
    };
    // `%` begins a replacement there.
    let log = task.folder.join(file::LOG).into_os_string().into_vec();
    let log: Vec<u8> = log.iter().flat_map(|&b| if b == b'%' { vec![b'%'; 2] } else { vec![b] }).collect();
    vec![
        "--parsable".into(),
        format!("--export={export}").into(),
        format!("--comment={comment}").into(),
        joined("--chdir=", cwd.as_os_str()),
        joined("--output=", OsStr::from_bytes(&log)),
        "--open-mode=append".into(),
        if place.requeue { "--requeue".into() } else { "--no-requeue".into() },
        task.folder.join(SCRIPT).into_os_string(),
    ]
}

/// The lines that ask for resources: nothing but what the file asks for.
fn directives(task: &Task, place: &Place) -> Vec<String> {
    let mut lines = vec![format!("--job-name={}", job_name(task))];
    let texts = [
        ("partition", &place.partition),
        ("account", &place.account),
        ("qos", &place.qos),
        ("gres", &place.gres),
        ("gpus", &place.gpus),
        ("gpus-per-node", &place.gpus_per_node),
        ("gpus-per-task", &place.gpus_per_task),
        ("constraint", &place.constraint),
        ("exclude", &place.exclude),
    ];
    let asked = texts.iter().filter(|(_, value)| !value.is_empty());
    lines.extend(asked.map(|(name, value)| format!("--{name}={}", quoted(value))));
    let sizes = [("mem", place.mem), ("mem-per-cpu", place.mem_per_cpu), ("mem-per-gpu", place.mem_per_gpu)];
    for (name, bytes) in sizes {
        lines.extend(bytes.map(|bytes| format!("--{name}={}M", bytes.div_ceil(1 << 20))));
    }
    lines.extend(place.cpus_per_task.map(|count| format!("--cpus-per-task={count}")));
    lines.extend(place.time.map(|seconds| format!("--time={}", time(seconds))));
    lines.push(format!("--signal=B:USR1@{}", grace(place)));
    lines.extend(place.sbatch_args.iter().map(|argument| match argument.split_once('=') {
        Some((name, value)) => format!("{name}={}", quoted(value)),
        None => argument.clone(),
    }));
    lines
}

/// Seconds before its end at which a job is warned: never before half of its time is over.
fn grace(place: &Place) -> u64 {
    let half = place.time.map_or(f64::MAX, |time| time / 2.0);
    (place.grace.min(half).ceil() as u64).clamp(1, 65_535)
}

/// `1-02:03:04`
fn time(seconds: f64) -> String {
    let all = seconds.ceil().max(1.0) as u64;
    let (days, hours, minutes) = (all / 86_400, all / 3600 % 24, all / 60 % 60);
    format!("{days}-{hours:02}:{minutes:02}:{:02}", all % 60)
}

/// As Slurm reads `#SBATCH` lines.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// One word of the shell, whatever is in it.
fn word(text: &OsStr) -> Vec<u8> {
    let inner = text.as_bytes().iter().flat_map(|&b| if b == b'\'' { br"'\''".to_vec() } else { vec![b] });
    [b"'".to_vec(), inner.collect(), b"'".to_vec()].concat()
}

/// The script of the job that runs `worker` on the task.
pub(super) fn script(task: &Task, place: &Place, worker: &[OsString]) -> Vec<u8> {
    let mut text = b"#!/bin/bash\n".to_vec();
    for line in directives(task, place) {
        text.extend_from_slice(format!("#SBATCH {line}\n").as_bytes());
    }
    let mut set = |name: &str, value: &OsStr| {
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend(word(value));
        text.push(b'\n');
    };
    set("folder", task.folder.as_os_str());
    set("nonce", task.nonce.as_ref());
    set("requeue", if place.requeue { "yes" } else { "" }.as_ref());
    set(&format!("export {}", env::RUN_ID), task.run_id.as_ref());
    set(&format!("export {}", env::ATTEMPT), task.attempt_id.as_ref());
    text.extend_from_slice(BEGIN.as_bytes());
    for line in &place.setup {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(b"set +e\n\nset -m\n");
    for part in worker {
        text.extend(word(part));
        text.push(b' ');
    }
    text.extend_from_slice(b"\"$folder\" </dev/null &\n");
    text.extend_from_slice(END.as_bytes());
    text
}

const BEGIN: &str = include_str!("begin.sh");
const END: &str = include_str!("end.sh");

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            run_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
            stage: "ppo".into(),
            number: 2,
            attempt_id: "A".into(),
            nonce: "0123456789abcdef".into(),
            folder: "/state/100% it's/a b".into(),
        }
    }

    #[test]
    fn e124_nothing_is_asked_for_that_the_file_does_not_ask_for() {
        let lines = directives(&task(), &Place::default());
        assert_eq!(lines, ["--job-name=pl-Q69G5FAV-ppo-a2-0123456789ab", "--signal=B:USR1@60"]);
        let place = Place {
            partition: "gpu".into(),
            constraint: "a100&\"big\"".into(),
            gpus: "2".into(),
            mem: Some(40_000_000_000),
            time: Some(93_784.0),
            cpus_per_task: Some(8),
            sbatch_args: vec!["--reservation=night shift".into(), "--exclusive".into()],
            ..Place::default()
        };
        let expected = [
            "--partition=\"gpu\"",
            "--gpus=\"2\"",
            "--constraint=\"a100&\\\"big\\\"\"",
            "--mem=38147M",
            "--cpus-per-task=8",
            "--time=1-02:03:04",
            "--signal=B:USR1@60",
            "--reservation=\"night shift\"",
            "--exclusive",
        ];
        assert_eq!(directives(&task(), &place)[1..], expected);
    }

    #[test]
    fn e22_the_warning_is_inside_the_time_limit_whatever_that_is() {
        for seconds in (1..=600).chain((601..604_800).step_by(997)) {
            let place = Place { time: Some(f64::from(seconds)), ..Place::default() };
            let grace = grace(&place);
            assert!(
                (1..=60).contains(&grace) && grace <= seconds.max(2) as u64 / 2 + 1,
                "{seconds}: {grace}"
            );
        }
        assert_eq!(grace(&Place { grace: 1e9, ..Place::default() }), 65_535);
    }

    #[test]
    fn e131_variables_go_by_name_and_paths_are_one_word() {
        let variables = ["OPENAI_API_KEY".to_owned(), "HF_HOME".to_owned()];
        let arguments = arguments(&task(), &Place::default(), Path::new("/the project"), &variables);
        assert!(arguments.contains(&"--export=OPENAI_API_KEY,HF_HOME".into()), "{arguments:?}");
        assert!(arguments.contains(&"--output=/state/100%% it's/a b/log.txt".into()), "{arguments:?}");
        assert!(arguments.contains(&"--chdir=/the project".into()));
        let script =
            String::from_utf8(script(&task(), &Place::default(), &["/bin/pipe line".into()])).unwrap();
        assert!(script.contains("folder='/state/100% it'\\''s/a b'\n"), "{script}");
        assert!(script.contains("\n'/bin/pipe line' \"$folder\" </dev/null &\n"), "{script}");
    }
}
