//! A28, A70, A71, A77: losses, gradients and metrics do not depend on micro-batches or on padding.

use spec::stage::RewardLoss;

use crate::common::{Keeper, hydra_sft, ppo, reward, run_hydra_sft, run_ppo, run_reward, run_sft, sft};

/// Metrics of all steps: gradients are in them as norms, and through the later steps' losses.
fn assert_close(what: &str, one: &Keeper, other: &Keeper, tolerance: f64) {
    assert_eq!(one.rows.len(), other.rows.len(), "{what}");
    for ((step, expected), (_, found)) in one.rows.iter().zip(&other.rows) {
        for ((name, expected), (_, found)) in expected.iter().zip(found) {
            let difference = (expected - found).abs() / expected.abs().max(1.0);
            assert!(difference <= tolerance, "{what}, step {step}: {name} is {found}, was {expected}");
        }
    }
}

/// Each supervised trainer with steps of 8 rows cut into micro-batches of `micro`.
fn supervised(micro: usize, reward_loss: RewardLoss) -> [Keeper; 3] {
    let cut = |training: &mut spec::stage::Training| {
        training.per_device_train_batch_size = micro;
        training.gradient_accumulation_steps = 8 / micro;
        training.max_steps = 3;
        training.save_steps = 100;
    };
    let (mut sft, mut reward, mut hydra) = (sft(), reward(), hydra_sft());
    cut(&mut sft.training);
    cut(&mut reward.training);
    cut(&mut hydra.training);
    reward.reward_loss = reward_loss;
    hydra.reward_loss = reward_loss;
    let mut keepers = [Keeper::default(), Keeper::default(), Keeper::default()];
    run_sft(&sft, &mut keepers[0]).expect("runs");
    run_reward(&reward, &mut keepers[1]).expect("runs");
    run_hydra_sft(&hydra, &mut keepers[2]).expect("runs");
    keepers
}

#[test]
fn supervised_steps_do_not_depend_on_micro_batches_and_their_padding() {
    for reward_loss in [RewardLoss::LastToken, RewardLoss::PerToken] {
        let whole = supervised(8, reward_loss);
        for micro in [1, 2, 4] {
            let cut = supervised(micro, reward_loss);
            for (name, (whole, cut)) in ["sft", "reward", "hydra-sft"].iter().zip(whole.iter().zip(&cut)) {
                assert_close(&format!("{name} in micro-batches of {micro}"), whole, cut, 2e-4);
            }
        }
    }
}

#[test]
fn ppo_updates_do_not_depend_on_micro_batches_and_their_padding() {
    let run = |micro| {
        let mut config = ppo();
        config.per_device_train_batch_size = micro;
        config.total_episodes = 16;
        let mut keeper = Keeper::default();
        run_ppo(&config, &mut keeper).expect("runs");
        keeper
    };
    let whole = run(8);
    for micro in [1, 2, 3] {
        assert_close(&format!("ppo in micro-batches of {micro}"), &whole, &run(micro), 2e-3);
    }
}

#[test]
fn the_order_of_a_steps_rows_plays_no_part() {
    let run = |pairs: Vec<data::Pair>| {
        let mut config = hydra_sft();
        // One step sees every row.
        config.training.per_device_train_batch_size = pairs.len();
        (config.training.max_steps, config.training.save_steps) = (3, 100);
        let mut keeper = Keeper::default();
        let decoder = crate::common::decoder();
        train::hydra_sft(&config, &pairs, &[], decoder, 1, 7, &mut keeper).expect("runs");
        keeper
    };
    let mut reversed = crate::common::pairs();
    reversed.reverse();
    assert_close("rows in another order", &run(crate::common::pairs()), &run(reversed), 2e-4);
}

#[test]
fn a_longer_neighbour_changes_no_score() {
    let (decoder, head) = (crate::common::decoder(), crate::common::head());
    let pairs = crate::common::pairs();
    let rows: Vec<(&[u32], &[u32])> =
        pairs.iter().map(|pair| (&pair.prompt_ids[..], &pair.chosen_ids[..])).collect();
    let together = train::score(&decoder, &head, &rows, rows.len(), 1).expect("scores");
    for (row, expected) in rows.iter().zip(&together) {
        let alone = train::score(&decoder, &head, &[*row], 1, 1).expect("scores")[0];
        assert!((alone - expected).abs() < 1e-5, "{alone} for {expected}");
    }
    let mut reversed = rows.clone();
    reversed.reverse();
    let mut backwards = train::score(&decoder, &head, &reversed, 3, 1).expect("scores");
    backwards.reverse();
    for (found, expected) in backwards.iter().zip(&together) {
        assert!((found - expected).abs() < 1e-5, "order: {found} for {expected}");
    }
}
