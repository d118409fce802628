//! What PPO promises from its first step on, and what stops it.

use spec::stage::Method;
use train::{Class, Probe, TrainError};

use crate::common::{Keeper, PAD, SEED, TOKENS, decoder, head, lora, ppo, prompts, run_ppo};

fn value(keeper: &Keeper, row: usize, name: &str) -> f64 {
    let found = keeper.rows[row].1.iter().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("{name} is measured")).1
}

#[test]
fn at_first_the_policy_is_the_reference_and_the_reward_rises() {
    let mut config = ppo();
    config.total_episodes = 240;
    config.kl_coef = 0.0;
    config.reward_clip = 0.0;
    config.num_mini_batches = 1;
    let mut keeper = Keeper::default();
    run_ppo(&config, &mut keeper).expect("every self-check passes");
    assert_eq!(value(&keeper, 0, "objective/kl"), 0.0);
    let last = keeper.rows.len() - 1;
    assert!(value(&keeper, last, "objective/kl").abs() > 0.0, "the actor has moved");
    let mean = |rows: std::ops::Range<usize>| {
        let count = rows.len() as f64;
        rows.map(|row| value(&keeper, row, "objective/scores")).sum::<f64>() / count
    };
    let (first, late) = (mean(0..5), mean(last - 4..last + 1));
    assert!(late > first, "reward went from {first} to {late}");
}

#[test]
fn the_probe_must_score_as_it_did_in_reward_eval() {
    let prompt_ids = prompts()[0].prompt_ids.clone();
    let response_ids = vec![4, 9, TOKENS.eos];
    let reward =
        train::score(&decoder(), &head(), &[(&prompt_ids, &response_ids)], 1, PAD).expect("scores")[0];
    let run = |reward| {
        let probe =
            Some(Probe { prompt_ids: prompt_ids.clone(), response_ids: response_ids.clone(), reward });
        let (config, lora, prompts) = (ppo(), lora(), prompts());
        let mut keeper = Keeper { stop_after: Some(1), ..Keeper::default() };
        let outcome =
            train::ppo(&config, &lora, &prompts, decoder(), head(), probe, TOKENS, SEED, &mut keeper);
        outcome.map(drop)
    };
    run(reward).expect("the same reward passes");
    for wrong in [reward + 1e-2, f32::NAN] {
        let error = run(wrong).expect_err("another reward");
        assert!(matches!(error, TrainError::ProbeReward { .. }), "{error}");
    }
}

#[test]
fn a_kl_above_the_bound_refuses_the_stage() {
    let mut config = ppo();
    (config.kl_coef, config.max_kl) = (0.0, 1e-9);
    config.kl_estimator = spec::stage::KlEstimator::K3;
    let error = run_ppo(&config, &mut Keeper::default()).expect_err("KL grows");
    assert!(matches!(error, TrainError::KlGate { .. }), "{error}");
    assert_eq!(error.class(), Class::Gate);
}

#[test]
fn other_methods_say_that_they_are_not_there_yet() {
    for method in [Method::Full, Method::Lora, Method::Dlora, Method::JHydra] {
        let mut config = ppo();
        config.method = method;
        let error = run_ppo(&config, &mut Keeper::default()).expect_err("not yet");
        assert!(matches!(error, TrainError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn two_runs_give_the_same_bytes() {
    let run = || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut keeper = Keeper { folder: folder.path().to_path_buf(), ..Keeper::default() };
        (run_ppo(&ppo(), &mut keeper).expect("runs"), keeper.metrics)
    };
    assert_eq!(run(), run());
}
