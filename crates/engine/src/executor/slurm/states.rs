//! Slurm's words for what a job is doing, reduced to what matters here.

use crate::executor::JobEnd;

/// What a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Running,
    Ended(End),
}

/// How a job ended, as far as Slurm knows. `Completed` says nothing about a result: that is for the
/// worker's manifest to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Other(JobEnd),
}

impl End {
    /// Whether Slurm may start the same job again by itself.
    pub fn may_return(self) -> bool {
        self == Self::Other(JobEnd::Displaced)
    }
}

/// Reads the word of `squeue`, `sacct` or `scontrol`: `CANCELLED by 1000`, `RUNNING+`. `None` for a word
/// that is not known, which ends nothing.
pub(super) fn parse(text: &str) -> Option<State> {
    let word = text.split_whitespace().next()?.trim_end_matches('+');
    Some(match word {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "RESV_DEL_HOLD"
        | "SPECIAL_EXIT" => State::Pending,
        "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "STAGE_OUT" | "RESIZING" => {
            State::Running
        }
        "COMPLETED" => State::Ended(End::Completed),
        "FAILED" | "BOOT_FAIL" => State::Ended(End::Other(JobEnd::Failed)),
        "TIMEOUT" | "DEADLINE" => State::Ended(End::Other(JobEnd::TimeLimit)),
        "PREEMPTED" | "NODE_FAIL" | "REVOKED" => State::Ended(End::Other(JobEnd::Displaced)),
        "OUT_OF_MEMORY" => State::Ended(End::Other(JobEnd::OutOfMemory)),
        "CANCELLED" => State::Ended(End::Other(JobEnd::Cancelled)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e119_every_terminal_state_ends_a_job_and_no_other_one_does() {
        let ended =
            "COMPLETED FAILED BOOT_FAIL TIMEOUT DEADLINE PREEMPTED NODE_FAIL REVOKED OUT_OF_MEMORY CANCELLED";
        for word in ended.split(' ') {
            assert!(matches!(parse(word), Some(State::Ended(_))), "{word}");
        }
        let going = "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT RUNNING \
                     COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING";
        for word in going.split_whitespace() {
            assert!(matches!(parse(word), Some(State::Pending | State::Running)), "{word}");
        }
    }

    #[test]
    fn e121_e122_unknown_words_end_nothing_and_decorations_do_not_matter() {
        for word in ["UNKNOWN", "", "  ", "NODE_MAGIC", "completed", "(null)"] {
            assert_eq!(parse(word), None, "{word}");
        }
        assert_eq!(parse("CANCELLED by 30065"), Some(State::Ended(End::Other(JobEnd::Cancelled))));
        assert_eq!(parse("CANCELLED+"), parse("CANCELLED"));
        assert_eq!(parse("RUNNING\n"), Some(State::Running));
    }
}
