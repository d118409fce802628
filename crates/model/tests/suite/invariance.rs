//! What must not change a row's numbers: padding, batch mates, the order of calls.

use burn::tensor::Tensor;
use model::{Role, TokenBatch};
use proptest::prelude::*;

use crate::tiny::{self, B, assert_close, floats};

/// Hidden states of the row's real tokens.
fn row(hidden: &Tensor<B, 3>, batch: &TokenBatch, row: usize) -> Vec<f32> {
    let (start, len) = (batch.start(row), batch.len(row));
    let width = hidden.dims()[2];
    floats(hidden.clone().slice([row..row + 1, start..start + len, 0..width]))
}

fn rows() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0..23u32, 1..9), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a22_padding_on_either_side_changes_no_row(rows in rows()) {
        let config = tiny::config(true, 4);
        let (decoder, adapter) = (tiny::llama(&config), tiny::lora(&config));
        let batches = [TokenBatch::right_padded(&rows, 0), TokenBatch::left_padded(&rows, 0)];
        for batch in batches {
            let hidden = decoder.hidden(&batch, Some(&adapter));
            for (index, ids) in rows.iter().enumerate() {
                let alone = TokenBatch::right_padded(&[ids], 0);
                let expected = row(&decoder.hidden(&alone, Some(&adapter)), &alone, 0);
                assert_close(&row(&hidden, &batch, index), &expected, 1e-5, "hidden");
            }
            let last: Vec<usize> =
                (0..rows.len()).map(|row| batch.flat(row, batch.len(row) - 1)).collect();
            let picked = floats(decoder.hidden_at(&batch, Some(&adapter), &last));
            for (index, at) in last.iter().enumerate() {
                let all = hidden.clone().reshape([batch.rows() * batch.cols(), 16]);
                let expected = floats(all.narrow(0, *at, 1));
                assert_close(&picked[index * 16..][..16], &expected, 1e-6, "hidden_at");
            }
        }
    }
}

#[test]
fn a22_same_row_padded_left_by_0_to_7() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    let ids: &[u32] = &[3, 1, 4, 1, 5, 9, 2, 6];
    let alone = TokenBatch::left_padded(&[ids], 0);
    let expected = row(&decoder.hidden(&alone, None), &alone, 0);
    for pads in 0..8 {
        let batch = TokenBatch::left_padded(&[ids, &vec![7; ids.len() + pads]], 0);
        assert_close(&row(&decoder.hidden(&batch, None), &batch, 0), &expected, 1e-5, "hidden");
    }
}

#[test]
fn a87_roles_in_any_order_give_the_same_four_vectors() {
    let hydra = tiny::hydra();
    let batch = TokenBatch::right_padded(&[&[3, 1, 4, 1][..], &[5, 9]], 0);
    let roles = [Role::Actor, Role::Reference, Role::Reward, Role::Critic];
    let vector = |role| {
        let hidden = hydra.hidden(role, &batch).reshape([8, 16]);
        match hydra.head(role) {
            Some(head) => floats(head.forward(hidden)),
            None => floats(hydra.decoder.lm_head(hidden)),
        }
    };
    let expected = roles.map(vector);
    for first in 0..4 {
        for step in [1, 3] {
            for index in (0..4).map(|i| (first + i * step) % 4) {
                assert_eq!(vector(roles[index]), expected[index], "{:?}", roles[index]);
            }
        }
    }
    let distinct = |a: usize, b: usize| assert_ne!(expected[a], expected[b]);
    distinct(0, 1);
    distinct(2, 3);
    let plain = hydra.decoder.hidden(&batch, None);
    assert_eq!(floats(hydra.hidden(Role::Reference, &batch)), floats(plain), "adapter off");
}

#[test]
fn a84_a_fresh_adapter_changes_nothing() {
    let config = tiny::config(true, 4);
    let decoder = tiny::llama(&config);
    let shape = model::LoraConfig::new::<&str>(4, 8.0, &[]).expect("valid");
    let fresh = model::Lora::init(&config, &shape, 1, &Default::default());
    let batch = TokenBatch::right_padded(&[[3, 1, 4, 1, 5]], 0);
    let (with, without) = (decoder.hidden(&batch, Some(&fresh)), decoder.hidden(&batch, None));
    assert_eq!(floats(with), floats(without));
}

#[test]
fn a82_two_passes_are_bit_identical() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    let batch = TokenBatch::right_padded(&vec![[7u32; 12]; 9], 0);
    let pass = || floats(decoder.hidden(&batch, None));
    assert_eq!(pass(), pass());
}

#[test]
#[should_panic(expected = "outside the model's vocabulary of 23")]
fn a101_an_id_outside_the_vocabulary_is_named() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    decoder.hidden(&TokenBatch::right_padded(&[[23]], 0), None);
}
