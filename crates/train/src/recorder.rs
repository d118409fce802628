//! What a trainer tells its surroundings, and what it asks of them.

use std::path::Path;

use crate::TrainError;

/// The observer of a training run; crate `stages` has the real one.
///
/// A trainer calls, for each finished step and in this order: `metrics`, `progress`, then perhaps
/// `checkpoint`, so that the metrics up to a step can be kept with that step's checkpoint.
pub trait Recorder {
    /// Numbers of a finished step (from 1). They depend on the inputs only, never on time.
    fn metrics(&mut self, step: u64, values: &[(&str, f64)]);

    /// How far the run is: `step` of `total` `unit`s; `message` is a short summary such as `loss 2.31`.
    fn progress(&mut self, step: u64, total: u64, unit: &str, message: &str);

    /// Something a person should know that does not stop the run.
    fn warning(&mut self, message: &str);

    /// Whether the run should write a checkpoint after the present step and stop.
    fn should_stop(&self) -> bool;

    /// Folder of the finished checkpoint to go on from.
    fn resume_from(&self) -> Option<&Path>;

    /// Has `write` fill a fresh folder, makes that folder a finished checkpoint whole or not at all, and
    /// prunes old ones. The trainers decide when (`save_steps`), the recorder what to keep
    /// (`save_total_limit`).
    fn checkpoint(
        &mut self,
        step: u64,
        write: &mut dyn FnMut(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError>;
}

/// How a training run ended when it did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// It ran to its end.
    Finished(T),
    /// It stopped after a checkpoint because [`Recorder::should_stop`] said so.
    Interrupted {
        /// The last finished step.
        step: u64,
    },
}

impl<T> Outcome<T> {
    /// Applies `f` to the result of a finished run.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Finished(result) => Outcome::Finished(f(result)),
            Self::Interrupted { step } => Outcome::Interrupted { step },
        }
    }
}
