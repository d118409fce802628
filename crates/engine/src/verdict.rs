//! What became of an attempt: a pure function of what was seen.

use crate::control::Level;
use crate::error::code;
use crate::executor::{Ending, JobEnd};
use crate::protocol::{FailureClass, Manifest, exit};
use crate::tail::Said;
use crate::update::Failure;

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The result is whole.
    Finished(Box<Manifest>),
    /// The worker said why; class is user or internal.
    Failed(Failure),
    /// A gate refused.
    Refused(Failure),
    /// Stopped at a checkpoint, on request.
    Interrupted,
    /// We ended it.
    Stopped,
    /// It is gone without a verdict, or named an infrastructure failure.
    Died(Failure),
}

/// Decides. `manifest` has been checked to be this attempt's; `level` is how hard we were stopping it.
pub fn judge(ending: Ending, said: &Said, manifest: Option<Manifest>, level: Level) -> Verdict {
    if let Some(failure) = &said.failed {
        return match failure.class {
            FailureClass::Gate => Verdict::Refused(failure.clone()),
            FailureClass::User | FailureClass::Internal => Verdict::Failed(failure.clone()),
            FailureClass::Infra if level > Level::Go => Verdict::Stopped,
            FailureClass::Infra => Verdict::Died(failure.clone()),
        };
    }
    // The manifest is the mark of a whole result; what happened to the process afterwards is no matter.
    if let Some(manifest) = manifest {
        return Verdict::Finished(Box::new(manifest));
    }
    if said.interrupted.is_some() || ending == Ending::Exit(exit::INTERRUPTED) {
        return Verdict::Interrupted;
    }
    if level > Level::Go {
        return Verdict::Stopped;
    }
    Verdict::Died(death(ending))
}

/// A death without a word from the worker.
fn death(ending: Ending) -> Failure {
    let log = "its log has more";
    let (code, message, help) = match ending {
        Ending::Job(end) => job_end(end),
        Ending::Signal(9) => {
            (code::DIED, "killed (signal 9), perhaps because memory ran out".to_owned(), log)
        }
        // What a Rust program does when the system refuses it memory.
        Ending::Signal(6) => {
            (code::DIED, "aborted (signal 6), perhaps because memory was refused".to_owned(), log)
        }
        Ending::Signal(signal) => (code::DIED, format!("killed by signal {signal}"), log),
        Ending::Exit(0) => (code::DIED, "ended without a manifest".to_owned(), log),
        Ending::Exit(exit) => (code::DIED, format!("ended with exit code {exit} and without a verdict"), log),
        Ending::Gone => (code::DIED, "gone without a verdict".to_owned(), log),
    };
    Failure { class: FailureClass::Infra, code: code.to_owned(), message, help: help.to_owned() }
}

fn job_end(end: JobEnd) -> (&'static str, String, &'static str) {
    let (code, message, help) = match end {
        JobEnd::TimeLimit => {
            (code::TIME_LIMIT, "the job's time was up", "raise `time`, or lower `save_steps`")
        }
        JobEnd::Displaced => (code::DISPLACED, "the job was preempted or its node failed", ""),
        JobEnd::OutOfMemory => (code::OUT_OF_MEMORY, "the job used more memory than it has", "raise `mem`"),
        JobEnd::Cancelled => {
            (code::CANCELLED, "the job was cancelled from outside", "`pipeline resume` goes on")
        }
        JobEnd::Failed => (
            code::JOB_FAILED,
            "the job failed before the stage began",
            "its log has more; do the nodes see the state folder and this program?",
        ),
    };
    (code, message.to_owned(), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(class: FailureClass) -> Said {
        let failure = Failure { class, code: "E1".into(), message: "m".into(), help: String::new() };
        Said { failed: Some(failure), ..Said::default() }
    }

    fn manifest() -> Option<Manifest> {
        let (nonce, fingerprint) = ("n".into(), "f".into());
        Some(Manifest {
            protocol: crate::protocol::PROTOCOL,
            nonce,
            fingerprint,
            files: vec![],
            summary: serde_json::Value::Null,
            usage: Default::default(),
        })
    }

    #[test]
    fn e13_the_class_of_a_failure_decides() {
        let none = Said::default();
        let judge = |ending, said: &Said, level| judge(ending, said, None, level);
        assert!(matches!(judge(Ending::Exit(1), &said(FailureClass::User), Level::Go), Verdict::Failed(_)));
        assert!(matches!(judge(Ending::Exit(1), &said(FailureClass::Infra), Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Exit(8), &said(FailureClass::Gate), Level::Go), Verdict::Refused(_)));
        assert!(matches!(judge(Ending::Signal(9), &none, Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Exit(101), &none, Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Exit(0), &none, Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Gone, &none, Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Job(JobEnd::TimeLimit), &none, Level::Go), Verdict::Died(_)));
        assert!(matches!(judge(Ending::Job(JobEnd::Cancelled), &none, Level::Stop), Verdict::Stopped));
        assert!(matches!(judge(Ending::Signal(15), &none, Level::Term), Verdict::Stopped));
        assert!(matches!(judge(Ending::Exit(75), &none, Level::Stop), Verdict::Interrupted));
    }

    #[test]
    fn both_ways_of_running_out_of_memory_are_named() {
        for signal in [6, 9] {
            let verdict = judge(Ending::Signal(signal), &Said::default(), None, Level::Go);
            let Verdict::Died(failure) = verdict else { panic!("{verdict:?}") };
            assert!(failure.message.contains("memory") && failure.code == code::DIED, "{failure:?}");
        }
    }

    #[test]
    fn e82_a_whole_result_counts_however_its_process_ended() {
        for ending in [Ending::Exit(0), Ending::Gone, Ending::Signal(9), Ending::Signal(15)] {
            let verdict = judge(ending, &Said::default(), manifest(), Level::Kill);
            assert!(matches!(verdict, Verdict::Finished(_)));
        }
        let verdict = judge(Ending::Exit(1), &said(FailureClass::User), manifest(), Level::Go);
        assert!(matches!(verdict, Verdict::Failed(_)), "a worker that says it failed is believed");
    }
}
