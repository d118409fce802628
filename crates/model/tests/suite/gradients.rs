//! Where gradients flow.

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use model::{Hydra, Llama, Parameters, Role, TokenBatch, gradients};

use crate::tiny::{self, B, assert_close, floats};

type A = Autodiff<B>;

fn loss(hydra: &Hydra<A>, role: Role) -> Tensor<A, 1> {
    let batch = TokenBatch::right_padded(&[&[3, 1, 4, 1][..], &[5, 9]], 0);
    let hidden = hydra.hidden(role, &batch).reshape([8, 16]).narrow(0, 0, 3);
    match hydra.head(role) {
        Some(head) => head.forward(hidden).sum(),
        None => hydra.decoder.logprobs(hidden, &[1, 4, 1], 1.0).sum(),
    }
}

/// Names of the parameters that got a gradient from a role's loss.
fn reached(hydra: &Hydra<A>, role: Role) -> Vec<String> {
    let mut grads = loss(hydra, role).backward();
    gradients(hydra, &mut grads).into_keys().collect()
}

#[test]
fn a129_only_the_declared_parameters_get_gradients_whatever_roles_ran_before() {
    let hydra = tiny::hydra();
    let trainable = |name: &str| ["actor.", "critic.", "value_head."].iter().any(|p| name.starts_with(p));
    let tracked = hydra.tracked(trainable);
    for role in [Role::Reference, Role::Critic, Role::Actor, Role::Reward] {
        let _ = tracked.hidden(role, &TokenBatch::right_padded(&[[1]], 0));
    }
    let actor = reached(&tracked, Role::Actor);
    let critic = reached(&tracked, Role::Critic);
    let declared: Vec<String> = hydra.names().into_iter().filter(|n| trainable(n)).collect();
    let mut found: Vec<String> = actor.iter().chain(&critic).cloned().collect();
    found.sort();
    let mut expected = declared.clone();
    expected.sort();
    assert_eq!(found, expected);
    assert!(actor.iter().all(|name| name.starts_with("actor.")), "{actor:?}");
    assert!(critic.iter().all(|name| !name.starts_with("actor.")), "{critic:?}");
}

#[test]
fn a128_gradient_of_an_adapter_weight_agrees_with_finite_differences_while_roles_switch() {
    let hydra = tiny::hydra();
    let name = "actor.base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight";
    let tracked = hydra.tracked(|n| n == name);
    let actor_loss = loss(&tracked, Role::Actor);
    // Other roles between forward and backward.
    let _ = (loss(&tracked, Role::Reference), loss(&tracked, Role::Critic));
    let mut grads = actor_loss.backward();
    let gradient = floats(gradients(&tracked, &mut grads)[name].clone())[0];
    let step = 1e-2;
    let shifted = |delta: f32| {
        let moved: Hydra<A> = hydra.map(&mut |n, tensor| {
            let tensor = Tensor::from_inner(tensor.clone());
            let first = tensor.clone().slice([0..1, 0..1]) + delta;
            if n == name { tensor.slice_assign([0..1, 0..1], first) } else { tensor }
        });
        floats(loss(&moved, Role::Actor))[0]
    };
    let difference = (shifted(step) - shifted(-step)) / (2.0 * step);
    assert_close(&[gradient], &[difference], 2e-3, "gradient");
}

#[test]
fn padding_changes_no_gradient() {
    let config = tiny::config(true, 4);
    let decoder: Llama<A> = tiny::llama(&config).tracked(|_| true);
    let ids: &[u32] = &[3, 1, 4, 1, 5];
    let run = |mates: &[&[u32]]| {
        let batch = TokenBatch::right_padded(&[&[ids], mates].concat(), 0);
        let hidden = decoder.hidden(&batch, None).reshape([batch.rows() * batch.cols(), 16]);
        let mut grads = decoder.logprobs(hidden.narrow(0, 0, 4), &ids[1..], 1.0).sum().backward();
        gradients(&decoder, &mut grads)
    };
    let (alone, padded) = (run(&[]), run(&[&[2; 9], &[8]]));
    for (name, gradient) in alone {
        assert_close(&floats(padded[&name].clone()), &floats(gradient), 2e-5, &name);
    }
}

#[test]
fn gradients_are_the_same_bytes_on_any_number_of_threads() {
    // Large enough that matrix products and row loops are split over threads.
    let config = model::LlamaConfig { num_hidden_layers: 1, ..model::LlamaConfig::default() };
    let decoder = Llama::<B>::init(&config, 5, &Default::default());
    let rows: Vec<Vec<u32>> = (0..30).map(|row| (0..10 + row).map(|col| row * 31 + col).collect()).collect();
    let batch = TokenBatch::right_padded(&rows, 0);
    let flat: Vec<usize> = (0..batch.rows()).flat_map(|row| [batch.flat(row, 3)]).collect();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let tracked: Llama<A> = decoder.tracked(|_| true);
            let hidden = tracked.hidden_at(&batch, None, &flat);
            let mut grads = tracked.logprobs(hidden, &[9; 30], 0.7).sum().backward();
            gradients(&tracked, &mut grads).into_iter().map(|(n, g)| (n, floats(g))).collect()
        })
    };
    let one: Vec<(String, Vec<f32>)> = run(1);
    assert_eq!(one.len(), 11);
    assert!(one == run(3), "three threads");
    assert!(one == run(1), "again");
}
