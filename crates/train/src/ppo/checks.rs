//! Self-checks: a run that breaks what PPO rests on is stopped, not finished.

use model::{HydraBackend, Parameters, Role, TokenBatch};
use spec::stage::Ppo;

use super::SpecialTokens;
use super::policy::Policy;
use super::rollout::Rollout;
use super::update::Statistics;
use crate::TrainError;

/// Nats per response.
const KL_TOLERANCE: f64 = 1e-6;
const RATIO_TOLERANCE: f64 = 1e-5;
const LOGIT_TOLERANCE: f64 = 1e-5;
/// Rewards of one row differ by rounding when it is read in another batch.
const REWARD_TOLERANCE: f64 = 1e-4;

/// A row whose reward another stage computed with the same model.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The prompt.
    pub prompt_ids: Vec<u32>,
    /// The response, EOS included.
    pub response_ids: Vec<u32>,
    /// What reward-eval computed.
    pub reward: f32,
}

/// What must not change.
#[derive(Debug, Clone)]
pub struct Checks {
    row: Vec<u32>,
    /// Logits of the bare decoder on `row`.
    logits: Vec<f32>,
    base: String,
    actor: String,
    critic: String,
}

impl Checks {
    /// Remembers the state before training. `base` is the hash of the Hydra-SFT model's parameters.
    pub fn new<B: HydraBackend>(policy: &Policy<B>, row: &[u32], base: String) -> Self {
        let decoder = &policy.hydra().decoder;
        let hidden = super::policy::flatten(decoder.hidden(&TokenBatch::right_padded(&[row], 0), None));
        let logits = decoder.lm_head(hidden).into_data().convert::<f32>().iter::<f32>().collect();
        let (actor, critic) = (policy.hydra().actor.hash(), policy.hydra().critic.hash());
        Self { row: row.to_vec(), logits, base, actor, critic }
    }

    /// Before anything is trained: there is something to train, the reference is the Hydra-SFT model, and
    /// the reward is the one that reward-eval saw.
    pub fn before<B: HydraBackend>(
        &self,
        policy: &Policy<B>,
        probe: Option<&Probe>,
        tokens: SpecialTokens,
    ) -> Result<(), TrainError> {
        let (actor, critic) = policy.trainable();
        for (role, parameters) in [("actor", actor), ("critic", critic)] {
            if parameters == 0 {
                return Err(TrainError::NothingTrainable { role });
            }
        }
        self.adapter_off(policy)?;
        let Some(probe) = probe else { return Ok(()) };
        let hydra = policy.hydra();
        let row = [(probe.prompt_ids.as_slice(), probe.response_ids.as_slice())];
        let found = crate::score(&hydra.decoder, &hydra.reward_head, &row, 1, tokens.pad)?[0];
        let (found, expected) = (f64::from(found), f64::from(probe.reward));
        // Written so that NaN fails.
        if (found - expected).abs() <= REWARD_TOLERANCE {
            Ok(())
        } else {
            Err(TrainError::ProbeReward { found, expected })
        }
    }

    /// After the first update: what is trained has changed, what is frozen has not.
    pub fn after_first_update<B: HydraBackend>(
        &self,
        policy: &Policy<B>,
        config: &Ppo,
    ) -> Result<(), TrainError> {
        if config.actor_learning_rate > 0.0 && policy.hydra().actor.hash() == self.actor {
            return Err(TrainError::AdapterUnchanged { role: "actor" });
        }
        let critic_learns = config.critic_learning_rate > 0.0 && config.vf_coef > 0.0;
        if critic_learns && policy.hydra().critic.hash() == self.critic {
            return Err(TrainError::AdapterUnchanged { role: "critic" });
        }
        self.at_end(policy)
    }

    /// The base is what it was, bit for bit, and the adapter-off logits with it.
    pub fn at_end<B: HydraBackend>(&self, policy: &Policy<B>) -> Result<(), TrainError> {
        let after = policy.hydra().decoder.hash();
        if after != self.base {
            return Err(TrainError::BaseChanged { before: self.base.clone(), after });
        }
        self.adapter_off(policy)
    }

    fn adapter_off<B: HydraBackend>(&self, policy: &Policy<B>) -> Result<(), TrainError> {
        let batch = TokenBatch::right_padded(&[self.row.as_slice()], 0);
        let hidden = policy.hidden(Role::Reference, &batch);
        let logits = policy.hydra().decoder.lm_head(hidden).into_data().convert::<f32>();
        let differences =
            logits.iter::<f32>().zip(&self.logits).map(|(now, then)| f64::from((now - then).abs()));
        let difference = differences.fold(0.0, f64::max);
        if difference <= LOGIT_TOLERANCE { Ok(()) } else { Err(TrainError::AdapterOff { difference }) }
    }
}

/// Before the first update the actor is the reference: KL is 0 for every response.
pub fn initial_kl(batch: &[Rollout]) -> Result<(), TrainError> {
    for rollout in batch {
        let pairs = rollout.logprobs.iter().zip(&rollout.ref_logprobs);
        let kl: f64 = pairs.map(|(logprob, reference)| f64::from(logprob - reference).abs()).sum();
        if kl.is_nan() || kl > KL_TOLERANCE {
            return Err(TrainError::InitialKl { kl });
        }
    }
    Ok(())
}

/// The first minibatch is on-policy: every ratio is 1.
pub fn initial_ratio(statistics: &Statistics) -> Result<(), TrainError> {
    for log_ratio in &statistics.log_ratios {
        let ratio = f64::from(*log_ratio).exp();
        if ratio.is_nan() || (ratio - 1.0).abs() > RATIO_TOLERANCE {
            return Err(TrainError::InitialRatio { ratio });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;
    use model::{Head, Llama, LlamaConfig};

    use super::*;

    fn policy() -> (Policy<Flex>, String) {
        let config = LlamaConfig {
            vocab_size: 12,
            hidden_size: 8,
            intermediate_size: 8,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            num_key_value_heads: 1,
            head_dim: 4,
            ..LlamaConfig::default()
        };
        let decoder = Llama::<Flex>::init(&config, 1, &Default::default());
        let base = decoder.hash();
        let head = Head::init(8, 0.5, 2, &Default::default());
        let policy = Policy::new(&Ppo::default(), &spec::Lora::default(), decoder, head, 3).expect("fits");
        (policy, base)
    }

    #[test]
    fn a84_a_first_kl_that_is_not_0_stops_the_run() {
        let rollout =
            |logprob| Rollout { logprobs: vec![logprob], ref_logprobs: vec![-1.0], ..Rollout::default() };
        assert!(initial_kl(&[rollout(-1.0)]).is_ok());
        for logprob in [-1.1, -0.9, f32::NAN] {
            assert!(matches!(initial_kl(&[rollout(logprob)]), Err(TrainError::InitialKl { .. })));
        }
    }

    #[test]
    fn a82_a_first_ratio_that_is_not_1_stops_the_run() {
        let statistics = |log_ratio| Statistics { log_ratios: vec![0.0, log_ratio], ..Statistics::default() };
        assert!(initial_ratio(&statistics(1e-6)).is_ok());
        for log_ratio in [1e-4, -1e-4, f32::NAN] {
            assert!(matches!(initial_ratio(&statistics(log_ratio)), Err(TrainError::InitialRatio { .. })));
        }
    }

    #[test]
    fn a85_adapters_must_change_and_the_base_must_not() {
        let (mut policy, base) = policy();
        let checks = Checks::new(&policy, &[1, 2, 3], base.clone());
        let tokens = SpecialTokens { eos: 0, pad: 1 };
        checks.before(&policy, None, tokens).expect("a fresh policy passes");
        let config = Ppo::default();
        let changed = |lora: &model::Lora<Flex>| lora.map(&mut |_, tensor| tensor.clone() + 0.01);
        let error = checks.after_first_update(&policy, &config).expect_err("nothing was trained");
        assert!(matches!(error, TrainError::AdapterUnchanged { role: "actor" }), "{error}");
        policy.set_actor(changed(&policy.hydra().actor));
        let error = checks.after_first_update(&policy, &config).expect_err("the critic was not trained");
        assert!(matches!(error, TrainError::AdapterUnchanged { role: "critic" }), "{error}");
        let mut critic = policy.critic();
        critic.adapter = changed(&critic.adapter);
        policy.set_critic(critic);
        checks.after_first_update(&policy, &config).expect("both have changed, the base has not");

        let other = Checks { base: "another".into(), ..checks.clone() };
        let error = other.at_end(&policy).expect_err("the base is another one");
        assert!(matches!(error, TrainError::BaseChanged { .. }), "{error}");
        let mut logits = checks.logits.clone();
        logits[0] += 1e-3;
        let error = Checks { logits, ..checks }.at_end(&policy).expect_err("the logits are others");
        assert!(matches!(error, TrainError::AdapterOff { .. }), "{error}");
    }
}
