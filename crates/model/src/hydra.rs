//! One decoder in four roles.

use burn::tensor::Tensor;

use crate::backend::HydraBackend;
use crate::batch::TokenBatch;
use crate::heads::Head;
use crate::llama::Llama;
use crate::lora::Lora;
use crate::params::Parameters;

/// Which of the four models of PPO a forward pass is.
///
/// It is an argument of the pass and nothing else: no adapter is ever switched on or off in the model, so
/// that calls in any order, and recomputation, give the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The frozen policy: the decoder without adapter.
    Reference,
    /// The frozen reward model: the decoder without adapter, read by the reward head.
    Reward,
    /// The policy: the decoder with the actor's adapter.
    Actor,
    /// The value model: the decoder with the critic's adapter, read by the value head.
    Critic,
}

/// The models of Hydra-PPO over one shared decoder.
#[derive(Debug, Clone)]
pub struct Hydra<B: HydraBackend> {
    /// The frozen trunk with its language-model head.
    pub decoder: Llama<B>,
    /// The frozen reward head.
    pub reward_head: Head<B>,
    /// The policy's adapter.
    pub actor: Lora<B>,
    /// The value model's adapter.
    pub critic: Lora<B>,
    /// The critic's own head; it starts as a copy of the reward head.
    pub value_head: Head<B>,
}

impl<B: HydraBackend> Hydra<B> {
    /// The adapter of a role; `None` for the two frozen ones.
    pub fn adapter(&self, role: Role) -> Option<&Lora<B>> {
        match role {
            Role::Reference | Role::Reward => None,
            Role::Actor => Some(&self.actor),
            Role::Critic => Some(&self.critic),
        }
    }

    /// Hidden states `[rows, cols, hidden]` of a role. `Reference` and `Reward` are the same pass: run it
    /// once and give it to the language-model head and to the reward head.
    pub fn hidden(&self, role: Role, batch: &TokenBatch) -> Tensor<B, 3> {
        self.decoder.hidden(batch, self.adapter(role))
    }

    /// Hidden states `[n, hidden]` of a role at the tokens `flat` ([`TokenBatch::flat`]) only.
    pub fn hidden_at(&self, role: Role, batch: &TokenBatch, flat: &[usize]) -> Tensor<B, 2> {
        self.decoder.hidden_at(batch, self.adapter(role), flat)
    }

    /// The scalar head of a role, `[n, hidden]` to `[n]`; `None` for those that predict tokens.
    pub fn head(&self, role: Role) -> Option<&Head<B>> {
        match role {
            Role::Reference | Role::Actor => None,
            Role::Reward => Some(&self.reward_head),
            Role::Critic => Some(&self.value_head),
        }
    }
}

/// Names are prefixed with the part: `decoder.`, `reward_head.`, `actor.`, `critic.`, `value_head.`.
impl<B: HydraBackend> Parameters<B> for Hydra<B> {
    type On<C: HydraBackend> = Hydra<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        self.decoder.visit(&mut |name, tensor| f(&format!("decoder.{name}"), tensor));
        self.reward_head.visit(&mut |name, tensor| f(&format!("reward_head.{name}"), tensor));
        self.actor.visit(&mut |name, tensor| f(&format!("actor.{name}"), tensor));
        self.critic.visit(&mut |name, tensor| f(&format!("critic.{name}"), tensor));
        self.value_head.visit(&mut |name, tensor| f(&format!("value_head.{name}"), tensor));
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Hydra<C> {
        Hydra {
            decoder: self.decoder.map(&mut |name, tensor| f(&format!("decoder.{name}"), tensor)),
            reward_head: self.reward_head.map(&mut |name, tensor| f(&format!("reward_head.{name}"), tensor)),
            actor: self.actor.map(&mut |name, tensor| f(&format!("actor.{name}"), tensor)),
            critic: self.critic.map(&mut |name, tensor| f(&format!("critic.{name}"), tensor)),
            value_head: self.value_head.map(&mut |name, tensor| f(&format!("value_head.{name}"), tensor)),
        }
    }
}
