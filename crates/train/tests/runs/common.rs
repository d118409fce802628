//! A tiny model, a few rows, and a recorder that keeps everything.

use std::path::{Path, PathBuf};

use burn::backend::Flex;
use data::{Pair, Prompt};
use model::{Head, Llama, LlamaConfig, Parameters};
use spec::stage::{HydraSft, Ppo, Pretrain, Reward, Sft, Training};
use train::{Outcome, Recorder, SpecialTokens, TrainError};

pub const PAD: u32 = 1;
pub const TOKENS: SpecialTokens = SpecialTokens { eos: 0, pad: PAD };
pub const SEED: u64 = 7;

pub fn decoder() -> Llama<Flex> {
    let config = LlamaConfig {
        vocab_size: 24,
        hidden_size: 16,
        intermediate_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 2,
        num_key_value_heads: 1,
        head_dim: 8,
        max_position_embeddings: 64,
        initializer_range: 0.25,
        ..LlamaConfig::default()
    };
    Llama::init(&config, 3, &Default::default())
}

pub fn head() -> Head<Flex> {
    Head::init(16, 0.5, 5, &Default::default())
}

/// Rows of different lengths.
pub fn pairs() -> Vec<Pair> {
    let ids = |start: usize, count: usize| (0..count).map(move |i| 2 + ((start * 5 + i * 3) % 22) as u32);
    let response = |start, count| ids(start, count).chain([TOKENS.eos]).collect::<Vec<u32>>();
    (0..12)
        .map(|row| Pair {
            id: row.to_string(),
            question: row.to_string(),
            prompt: String::new(),
            chosen: String::new(),
            rejected: String::new(),
            prompt_ids: ids(row, 2 + row % 4).collect(),
            chosen_ids: response(row + 1, 1 + row % 5),
            rejected_ids: response(row + 9, 2 + row % 3),
            meta: None,
        })
        .collect()
}

pub fn prompts() -> Vec<Prompt> {
    let prompt = |pair: Pair| Prompt {
        id: pair.id,
        prompt: String::new(),
        prompt_ids: pair.prompt_ids,
        reference: None,
        meta: None,
    };
    pairs().into_iter().map(prompt).collect()
}

/// Keeps metrics and, given a folder, checkpoints; asks to stop once `stop_after` steps are done.
#[derive(Default)]
pub struct Keeper {
    pub metrics: Vec<String>,
    pub rows: Vec<(u64, Vec<(String, f64)>)>,
    pub saved: Vec<u64>,
    pub stop_after: Option<u64>,
    pub folder: PathBuf,
    pub resume: Option<PathBuf>,
}

impl Recorder for Keeper {
    fn metrics(&mut self, step: u64, values: &[(&str, f64)]) {
        self.metrics.push(format!("{step} {values:?}"));
        self.rows.push((step, values.iter().map(|(name, value)| (name.to_string(), *value)).collect()));
    }

    fn progress(&mut self, _: u64, _: u64, _: &str, _: &str) {}

    fn warning(&mut self, _: &str) {}

    fn should_stop(&self) -> bool {
        self.stop_after.is_some_and(|stop| self.metrics.len() as u64 >= stop)
    }

    fn resume_from(&self) -> Option<&Path> {
        self.resume.as_deref()
    }

    fn checkpoint(
        &mut self,
        step: u64,
        write: &mut dyn FnMut(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        self.saved.push(step);
        if self.folder.as_os_str().is_empty() {
            return Ok(());
        }
        let folder = self.folder.join(step.to_string());
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        write(&folder)
    }
}

/// Every trainer, as a run that ends with a hash of all it trained; `None` when it stopped on the way.
pub type Run = fn(&mut Keeper) -> Result<Option<String>, TrainError>;

pub const RUNS: [(&str, Run); 5] = [
    ("pretrain", run_pretrain),
    ("sft", |keeper| run_sft(&sft(), keeper)),
    ("reward", |keeper| run_reward(&reward(), keeper)),
    ("hydra-sft", |keeper| run_hydra_sft(&hydra_sft(), keeper)),
    ("ppo", |keeper| run_ppo(&ppo(), keeper)),
];

pub fn training() -> Training {
    Training {
        learning_rate: 1e-2,
        max_steps: 8,
        per_device_train_batch_size: 4,
        warmup_steps: 2,
        weight_decay: 0.1,
        save_steps: 3,
        ..Training::default()
    }
}

pub fn sft() -> Sft {
    Sft { training: training(), ..Sft::default() }
}

pub fn reward() -> Reward {
    Reward { training: training(), ..Reward::default() }
}

pub fn hydra_sft() -> HydraSft {
    HydraSft { training: training(), ..HydraSft::default() }
}

pub fn ppo() -> Ppo {
    Ppo {
        total_episodes: 64,
        batch_size: 8,
        num_mini_batches: 2,
        num_ppo_epochs: 2,
        per_device_train_batch_size: 4,
        response_length: 6,
        actor_learning_rate: 1e-2,
        critic_learning_rate: 1e-2,
        save_steps: 3,
        ..Ppo::default()
    }
}

pub fn lora() -> spec::Lora {
    spec::Lora { r: 4, lora_alpha: 4.0, ..spec::Lora::default() }
}

fn finished<T>(outcome: Outcome<T>, hash: impl FnOnce(T) -> String) -> Option<String> {
    match outcome {
        Outcome::Finished(result) => Some(hash(result)),
        Outcome::Interrupted { .. } => None,
    }
}

fn run_pretrain(keeper: &mut Keeper) -> Result<Option<String>, TrainError> {
    let config = Pretrain { max_length: 6, training: training(), ..Pretrain::default() };
    let documents: Vec<Vec<u32>> =
        pairs().into_iter().map(|pair| [pair.prompt_ids, pair.chosen_ids].concat()).collect();
    let outcome = train::pretrain(&config, &documents, &documents[..2], decoder(), PAD, SEED, keeper)?;
    Ok(finished(outcome, |result| result.decoder.hash()))
}

pub fn run_sft(config: &Sft, keeper: &mut Keeper) -> Result<Option<String>, TrainError> {
    let outcome = train::sft(config, &pairs(), decoder(), PAD, SEED, keeper)?;
    Ok(finished(outcome, |result| result.decoder.hash()))
}

pub fn run_reward(config: &Reward, keeper: &mut Keeper) -> Result<Option<String>, TrainError> {
    let outcome = train::reward(config, &pairs(), decoder(), PAD, SEED, keeper)?;
    Ok(finished(outcome, |result| result.decoder.hash() + &result.head.hash()))
}

pub fn run_hydra_sft(config: &HydraSft, keeper: &mut Keeper) -> Result<Option<String>, TrainError> {
    let outcome = train::hydra_sft(config, &pairs(), &pairs()[..2], decoder(), PAD, SEED, keeper)?;
    Ok(finished(outcome, |result| result.decoder.hash() + &result.reward_head.hash()))
}

pub fn run_ppo(config: &Ppo, keeper: &mut Keeper) -> Result<Option<String>, TrainError> {
    let (lora, prompts) = (lora(), prompts());
    let outcome = train::ppo(config, &lora, &prompts, decoder(), head(), None, TOKENS, SEED, keeper)?;
    Ok(finished(outcome, |result| result.actor.hash() + &result.critic.hash() + &result.value_head.hash()))
}
