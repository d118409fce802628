//! What can stop a training run. Codes are explained in `docs/errors/train.md`.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The pipeline file or the data.
    User,
    /// A bound that the user set was passed: the result is refused.
    Gate,
    /// A self-check failed: the program or its files are wrong.
    Internal,
    /// Nobody in particular: a disk that is full. It may go better another time.
    Infra,
}

/// Every error of this crate, with a code `E06xx` and, where a person can mend it, help.
#[derive(Debug, Error, Diagnostic)]
#[non_exhaustive]
pub enum TrainError {
    /// No row is left to train on.
    #[error("there is nothing to train on: {what}")]
    #[diagnostic(code(E0601), help("look at the card of the `prepare` stage for what was dropped and why"))]
    Empty {
        /// What was looked for and, where rows were dropped, their number and example ids.
        what: String,
    },

    /// A key has a value that the trainer cannot use.
    #[error("`{key}` {problem}")]
    #[diagnostic(code(E0602))]
    Config {
        /// The key as in the pipeline file.
        key: &'static str,
        /// What is wrong with its value.
        problem: String,
    },

    /// A PPO method that this version does not have.
    #[error("`method = \"{method}\"` is not yet supported")]
    #[diagnostic(code(E0603), help("use `method = \"hydra\"`"))]
    Unsupported {
        /// The method's name.
        method: &'static str,
    },

    /// A row is longer than the model's positions.
    #[error("row `{id}` needs {length} positions, the model has {positions}")]
    #[diagnostic(
        code(E0604),
        help(
            "lower `max_length`, `max_prompt_length`, `max_response_length` or `response_length`, or take a \
             model with a larger `max_position_embeddings`"
        )
    )]
    TooLong {
        /// The row.
        id: String,
        /// Tokens, the response included.
        length: usize,
        /// The model's `max_position_embeddings`.
        positions: usize,
    },

    /// A token id outside the model's vocabulary.
    #[error("row `{id}` has the token id {token}, the model's vocabulary has {vocabulary}")]
    #[diagnostic(
        code(E0605),
        help("data and model must use the same tokenizer: give both the same base stage")
    )]
    Token {
        /// The row.
        id: String,
        /// The id.
        token: u32,
        /// The model's `vocab_size`.
        vocabulary: usize,
    },

    /// A loss or a gradient is infinite or not a number.
    #[error("the {what} of step {step} is {value}")]
    #[diagnostic(code(E0610), help("lower the learning rate, or raise `warmup_steps`"))]
    NonFinite {
        /// Such as `loss` or `gradient norm of the actor`.
        what: String,
        /// The optimiser step (PPO: the update), from 1.
        step: u64,
        /// Its value.
        value: f64,
    },

    /// A checkpoint belongs to another run.
    #[error("the checkpoint in {} does not belong to this run: {part} was {saved}, is {current}", path.display())]
    #[diagnostic(code(E0611), help("delete the checkpoint to train from the start"))]
    CheckpointMismatch {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What differs: `config`, `data`, `model`, `seed`, `trainer`.
        part: String,
        /// In the checkpoint.
        saved: String,
        /// In this run.
        current: String,
    },

    /// A checkpoint cannot be read whole.
    #[error("the checkpoint in {} is damaged: {problem}", path.display())]
    #[diagnostic(code(E0612), help("try again: the run goes on from the one before"))]
    CheckpointDamaged {
        /// The checkpoint's folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },

    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    #[diagnostic(code(E0613))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },

    /// Self-check: before the first update the policy is the reference.
    #[error("self-check: KL to the reference is {kl:e} nats per response before the first update, not 0")]
    #[diagnostic(code(E0620))]
    InitialKl {
        /// The largest |KL| of a response.
        kl: f64,
    },

    /// Self-check: the first minibatch is on-policy.
    #[error("self-check: a probability ratio of the first minibatch is {ratio}, not 1")]
    #[diagnostic(code(E0621))]
    InitialRatio {
        /// The ratio furthest from 1.
        ratio: f64,
    },

    /// Self-check: with the adapter off, the policy is the model it was made from.
    #[error("self-check: logits with the adapter off differ from the Hydra-SFT model's by {difference:e}")]
    #[diagnostic(code(E0622))]
    AdapterOff {
        /// The largest difference.
        difference: f64,
    },

    /// Self-check: PPO and reward-eval score alike.
    #[error("self-check: the probe row scores {found} here and {expected} in reward-eval")]
    #[diagnostic(code(E0623), help("the model or its reward head changed since: run `reward-eval` again"))]
    ProbeReward {
        /// The reward computed by PPO.
        found: f64,
        /// The reward that reward-eval stored.
        expected: f64,
    },

    /// Self-check: something is trained.
    #[error("self-check: the {role} has no trainable parameter")]
    #[diagnostic(code(E0624), help("`target_modules` must name linear layers of the model"))]
    NothingTrainable {
        /// `actor` or `critic`.
        role: &'static str,
    },

    /// Self-check: the first update changed what is trained.
    #[error("self-check: the {role}'s adapter is the same after the first update")]
    #[diagnostic(code(E0625), help("is its learning rate 0?"))]
    AdapterUnchanged {
        /// `actor` or `critic`.
        role: &'static str,
    },

    /// Self-check: what is frozen stays as it was.
    #[error("self-check: the frozen base changed during training")]
    #[diagnostic(code(E0626))]
    BaseChanged {
        /// Hash before.
        before: String,
        /// Hash after.
        after: String,
    },

    /// The policy went further from the reference than allowed.
    #[error("KL to the reference is {kl:.3} nats per response at update {update}, `max_kl` is {max_kl}")]
    #[diagnostic(code(E0630), help("raise `kl_coef`, lower `actor_learning_rate`, or raise `max_kl`"))]
    KlGate {
        /// Mean over the update's responses.
        kl: f64,
        /// The bound.
        max_kl: f64,
        /// From 1.
        update: u64,
    },

    /// A model cannot be made or read.
    #[error(transparent)]
    #[diagnostic(code(E0640))]
    Model(#[from] model::ModelError),
}

impl TrainError {
    /// Who has to act.
    pub fn class(&self) -> Class {
        match self {
            Self::KlGate { .. } => Class::Gate,
            Self::InitialKl { .. }
            | Self::InitialRatio { .. }
            | Self::AdapterOff { .. }
            | Self::BaseChanged { .. } => Class::Internal,
            Self::Write { .. } => Class::Infra,
            _ => Class::User,
        }
    }
}
