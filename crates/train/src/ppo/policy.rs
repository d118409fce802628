//! The models of PPO by role: the seam where the methods differ.
//!
//! Only `hydra` is here so far: one frozen base with an adapter each for actor and critic. Another method
//! answers the same questions (hidden states and heads of a role, what is trained) with other models.

use std::path::Path;

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use model::{Head, Hydra, HydraBackend, Llama, Lora, LoraConfig, Parameters, Role, TokenBatch};
use spec::TargetModules;
use spec::stage::Ppo;

use crate::TrainError;
use crate::checkpoint::Checkpoint;

/// The four roles over their parameters.
#[derive(Debug, Clone)]
pub struct Policy<B: HydraBackend> {
    hydra: Hydra<B>,
    /// The base on the autodiff backend, without gradients; shares its storage.
    frozen: Llama<Autodiff<B>>,
    train_value_head: bool,
}

/// The critic's trainable parts.
#[derive(Debug, Clone)]
pub struct Critic<B: HydraBackend> {
    /// Its adapter.
    pub adapter: Lora<B>,
    /// Its own head, which started as a copy of the reward head.
    pub head: Head<B>,
}

impl<B: HydraBackend> Parameters<B> for Critic<B> {
    type On<C: HydraBackend> = Critic<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        self.adapter.visit(f);
        self.head.visit(f);
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Critic<C> {
        Critic { adapter: self.adapter.map(f), head: self.head.map(f) }
    }
}

impl<B: HydraBackend> Policy<B> {
    /// Fresh adapters, which change nothing yet, and a value head equal to the reward head.
    pub fn new(
        config: &Ppo,
        lora: &spec::Lora,
        decoder: Llama<B>,
        reward_head: Head<B>,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let names = match &lora.target_modules {
            TargetModules::AllLinear => &[],
            TargetModules::Names(names) => names.as_slice(),
        };
        let shape = LoraConfig::new(lora.r, lora.lora_alpha, names)?;
        let device = decoder.device();
        let adapter = |name: &str| {
            let seed = rand::RngCore::next_u64(&mut data::rng(seed, &[name.into()]));
            Lora::init(decoder.config(), &shape, seed, &device)
        };
        let (actor, critic) = (adapter("actor"), adapter("critic"));
        let frozen = decoder.frozen();
        let value_head = reward_head.clone();
        let hydra = Hydra { decoder, reward_head, actor, critic, value_head };
        Ok(Self { hydra, frozen, train_value_head: config.train_value_head })
    }

    /// The models without gradients.
    pub fn hydra(&self) -> &Hydra<B> {
        &self.hydra
    }

    /// The models, given away.
    pub fn into_hydra(self) -> Hydra<B> {
        self.hydra
    }

    /// The base for passes with gradients to an adapter.
    pub fn frozen(&self) -> &Llama<Autodiff<B>> {
        &self.frozen
    }

    /// Hidden states `[rows · cols, hidden]` of a role, without gradient.
    pub fn hidden(&self, role: Role, batch: &TokenBatch) -> Tensor<B, 2> {
        flatten(self.hydra.hidden(role, batch))
    }

    /// The critic's trainable parts.
    pub fn critic(&self) -> Critic<B> {
        Critic { adapter: self.hydra.critic.clone(), head: self.hydra.value_head.clone() }
    }

    /// A tracked copy of the critic.
    pub fn tracked_critic(&self) -> Critic<Autodiff<B>> {
        self.critic().tracked(|name| self.train_value_head || name.contains("lora_"))
    }

    /// Takes over the actor after an optimiser step.
    pub fn set_actor(&mut self, actor: Lora<B>) {
        self.hydra.actor = actor;
    }

    /// Takes over the critic after an optimiser step.
    pub fn set_critic(&mut self, critic: Critic<B>) {
        self.hydra.critic = critic.adapter;
        self.hydra.value_head = critic.head;
    }

    /// Scalars that training changes, of the actor and of the critic.
    pub fn trainable(&self) -> (usize, usize) {
        let head = if self.train_value_head { self.hydra.value_head.count() } else { 0 };
        (self.hydra.actor.count(), self.hydra.critic.count() + head)
    }

    /// Adds everything that training changes to a checkpoint.
    pub fn save(&self, checkpoint: &mut Checkpoint<B>) {
        checkpoint.put("actor.", &self.hydra.actor);
        checkpoint.put("critic.", &self.critic());
    }

    /// Takes up what [`Policy::save`] put in.
    pub fn restore(&mut self, checkpoint: &mut Checkpoint<B>, dir: &Path) -> Result<(), TrainError> {
        self.hydra.actor = checkpoint.model("actor.", &self.hydra.actor, dir)?;
        let critic = checkpoint.model("critic.", &self.critic(), dir)?;
        self.set_critic(critic);
        Ok(())
    }
}

/// `[rows, cols, hidden]` to `[rows · cols, hidden]`.
pub fn flatten<B: HydraBackend>(hidden: Tensor<B, 3>) -> Tensor<B, 2> {
    let [rows, cols, width] = hidden.dims();
    hidden.reshape([rows * cols, width])
}
