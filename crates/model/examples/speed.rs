//! Times of a small model's passes: `cargo run --release -p model --example speed`.

use std::hint::black_box;
use std::time::Instant;

use burn::backend::{Autodiff, Flex};
use burn::tensor::Tensor;
use model::{
    Head, Llama, LlamaConfig, Lora, LoraConfig, Parameters, Sampling, TokenBatch, generate, gradients,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

type B = Flex;
type A = Autodiff<B>;

/// Best and median milliseconds of a few runs.
fn time<T>(what: &str, mut f: impl FnMut() -> T) {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            black_box(f());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:34} best {:8.2} ms   median {:8.2} ms", times[0], times[times.len() / 2]);
}

/// Mean negative log-probability of every next token.
fn loss(model: &Llama<A>, adapter: Option<&Lora<A>>, batch: &TokenBatch) -> Tensor<A, 1> {
    let n = batch.rows() * batch.cols();
    let hidden = model.hidden(batch, adapter).reshape([n, model.config().hidden_size]);
    let mut targets = batch.ids().to_vec();
    targets.rotate_left(1);
    -model.logprobs(hidden, &targets, 1.0).mean()
}

fn main() {
    let device = Default::default();
    let config = LlamaConfig { vocab_size: 512, ..LlamaConfig::default() };
    let model: Llama<B> = Llama::init(&config, 1, &device);
    let shape = LoraConfig::new::<&str>(16, 16.0, &[]).expect("a valid adapter");
    let lora: Lora<B> = Lora::init(&config, &shape, 2, &device);
    let head: Head<B> = Head::init(config.hidden_size, 0.02, 3, &device);
    let rows: Vec<Vec<u32>> =
        (0..64).map(|row| (0..40).map(|col| (row * 7 + col * 13) % 512).collect()).collect();
    let batch = TokenBatch::right_padded(&rows, 0);
    let n = batch.rows() * batch.cols();
    println!("{} parameters, {} rows of {} tokens", model.count(), batch.rows(), batch.cols());

    time("forward", || model.hidden(&batch, None).into_data());
    time("forward, adapter", || model.hidden(&batch, Some(&lora)).into_data());
    let hidden = model.hidden(&batch, None).reshape([n, config.hidden_size]);
    time("log-probabilities", || model.logprobs(hidden.clone(), batch.ids(), 1.0).into_data());
    time("scalar head", || head.forward(hidden.clone()).into_data());

    let tracked: Llama<A> = model.tracked(|_| true);
    time("forward and backward, all", || {
        let mut grads = loss(&tracked, None, &batch).backward();
        gradients(&tracked, &mut grads)
    });
    let (frozen, adapter): (Llama<A>, Lora<A>) = (model.frozen(), lora.tracked(|_| true));
    time("forward and backward, adapter", || {
        let mut grads = loss(&frozen, Some(&adapter), &batch).backward();
        gradients(&adapter, &mut grads)
    });

    let prompts: Vec<&[u32]> = rows.iter().map(|row| &row[..20]).collect();
    let sampling = Sampling { temperature: 1.0, ..Sampling::greedy(20, vec![]) };
    let mut rngs: Vec<ChaCha8Rng> = (0..64).map(ChaCha8Rng::seed_from_u64).collect();
    time("20 tokens for 64 rows", || generate(&model, None, &prompts, &sampling, &mut rngs));
    time("20 tokens for 64 rows, adapter", || generate(&model, Some(&lora), &prompts, &sampling, &mut rngs));
}
