//! Makes a plan happen: the dispatcher, executors, retries, cancellation, events. Knows no training.

pub mod protocol;
