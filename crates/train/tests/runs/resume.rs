//! A1, A2, A4, A5, A7, A8, A17: stopped or killed at any step and resumed, every trainer gives the same bytes.

use train::TrainError;

use crate::common::{Keeper, PAD, RUNS, SEED, decoder, pairs, ppo, reward, run_ppo, run_sft, sft};

#[test]
fn stopped_at_any_step_and_resumed_it_is_the_same_run() {
    for (name, run) in RUNS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut whole = Keeper { folder: folder.path().join("whole"), ..Keeper::default() };
        let expected = run(&mut whole).expect("runs").expect("ends");
        assert_eq!(whole.saved, [3, 6], "{name}: save_steps counts optimiser steps (A19)");
        for stop in 1..whole.metrics.len() as u64 {
            let folder = folder.path().join(stop.to_string());
            let mut first = Keeper { folder: folder.clone(), stop_after: Some(stop), ..Keeper::default() };
            assert_eq!(run(&mut first).expect("runs"), None, "{name} stops after {stop}");
            let resume = Some(folder.join(stop.to_string()));
            let mut second = Keeper { folder: folder.join("second"), resume, ..Keeper::default() };
            let found = run(&mut second).expect("resumes").expect("ends");
            assert_eq!(found, expected, "{name} resumed after {stop}");
            assert_eq!(
                [first.metrics, second.metrics].concat(),
                whole.metrics,
                "{name} resumed after {stop}"
            );
        }
    }
}

#[test]
fn a4_an_adaptive_kl_coefficient_goes_on_where_it_was() {
    let mut config = ppo();
    (config.adaptive_kl, config.kl_target, config.kl_horizon) = (true, 1e-3, 20.0);
    let folder = tempfile::tempdir().expect("a folder");
    let keeper = |name: &str| Keeper { folder: folder.path().join(name), ..Keeper::default() };
    let mut whole = keeper("whole");
    let expected = run_ppo(&config, &mut whole).expect("runs");
    let mut first = Keeper { stop_after: Some(4), ..keeper("first") };
    run_ppo(&config, &mut first).expect("runs");
    let mut second = Keeper { resume: Some(folder.path().join("first/4")), ..keeper("second") };
    assert_eq!(run_ppo(&config, &mut second).expect("resumes"), expected);
    assert_eq!([first.metrics, second.metrics].concat(), whole.metrics);
    let coef = |row: usize| {
        let values = &whole.rows[row].1;
        values.iter().find(|(name, _)| name == "objective/kl_coef").expect("it is measured").1
    };
    assert_ne!(coef(0), coef(7), "the coefficient moves");
}

#[test]
fn a_checkpoint_of_another_run_is_refused_and_says_what_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Keeper { folder: folder.path().to_path_buf(), stop_after: Some(2), ..Keeper::default() };
    run_sft(&sft(), &mut first).expect("runs");
    let resume = Some(folder.path().join("2"));
    let again = || Keeper { resume: resume.clone(), ..Keeper::default() };

    let mut other = sft();
    other.training.learning_rate = 2e-2;
    let error = run_sft(&other, &mut again()).expect_err("another rate");
    assert!(matches!(&error, TrainError::CheckpointMismatch { part, .. } if part == "config"), "{error}");
    let error = run_ppo(&ppo(), &mut again()).expect_err("another trainer");
    assert!(matches!(&error, TrainError::CheckpointMismatch { part, .. } if part == "trainer"), "{error}");
    // What only steers the execution may change (E14).
    let mut patient = sft();
    patient.training.save_steps = 50;
    let mut keeper = again();
    keeper.folder = folder.path().join("patient");
    assert!(run_sft(&patient, &mut keeper).expect("resumes").is_some());
}

#[test]
fn a11_a_damaged_checkpoint_is_an_error_not_a_fresh_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = Keeper { folder: folder.path().to_path_buf(), stop_after: Some(2), ..Keeper::default() };
    run_ppo(&ppo(), &mut first).expect("runs");
    let checkpoint = folder.path().join("2");
    for name in ["state.json", "tensors.safetensors"] {
        let path = checkpoint.join(name);
        let whole = std::fs::read(&path).expect("it reads");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x40;
        for damaged in [Vec::new(), whole[..whole.len() - 9].to_vec(), flipped] {
            std::fs::write(&path, &damaged).expect("it writes");
            let mut keeper = Keeper { resume: Some(checkpoint.clone()), ..Keeper::default() };
            let error = run_ppo(&ppo(), &mut keeper).expect_err("damaged");
            assert!(matches!(error, TrainError::CheckpointDamaged { .. }), "{name}: {error}");
        }
        std::fs::write(&path, whole).expect("it writes");
    }
    // Still valid JSON, but another step.
    let path = checkpoint.join("state.json");
    let text = std::fs::read_to_string(&path).expect("it reads");
    std::fs::write(&path, text.replace("\"step\": 2", "\"step\": 3")).expect("it writes");
    let mut keeper = Keeper { resume: Some(checkpoint), ..Keeper::default() };
    let error = run_ppo(&ppo(), &mut keeper).expect_err("another step");
    assert!(matches!(error, TrainError::CheckpointDamaged { .. }), "{error}");
}

#[test]
fn a44_a_pair_that_cannot_be_read_is_named() {
    let refused = |change: fn(&mut data::Pair)| {
        let mut pairs = pairs();
        pairs[5].id = "q5".into();
        change(&mut pairs[5]);
        let run = train::reward(&reward(), &pairs, decoder(), PAD, SEED, &mut Keeper::default());
        run.map(|_| ()).expect_err("it is refused").to_string()
    };
    for said in [
        refused(|pair| pair.rejected_ids.clear()),
        refused(|pair| pair.chosen_ids[0] = 99),
        refused(|pair| pair.prompt_ids = vec![2; 80]),
    ] {
        assert!(said.contains("q5"), "{said}");
    }
}
