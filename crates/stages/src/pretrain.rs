//! `kind = "pretrain"`: see docs/stages/pretrain.md.

use data::{Document, Tokenizer};
use model::{HydraBackend, Llama, LlamaConfig};
use spec::stage::{Architecture, Pretrain};

use crate::context::{Context, Ending, finish};
use crate::error::StageError;

pub fn run<B: HydraBackend>(config: &Pretrain, context: &mut Context<B>) -> Result<Ending, StageError> {
    let seed = context.seed();
    let documents = data::texts(&config.source, seed)?;
    let (train_on, held_out) = hold_out(documents, config.eval_ratio, seed);
    let from_scratch = config.model.is_empty() && context.request.stage.base_model.is_empty();
    let (decoder, tokenizer) = if from_scratch {
        let texts = train_on.iter().map(|document| document.text.clone());
        let tokenizer = Tokenizer::train_bpe(texts, config.architecture.vocab_size)?;
        (Llama::init(&shape(&config.architecture, &tokenizer), seed, context.device), tokenizer)
    } else {
        context.start(&config.model)?
    };
    let encode = |documents: &[Document]| -> Result<Vec<Vec<u32>>, StageError> {
        documents.iter().map(|document| whole(&tokenizer, &document.text)).collect()
    };
    let (train_on, held_out) = (encode(&train_on)?, encode(&held_out)?);
    let pad = tokenizer.pad_id();
    let outcome = train::pretrain(config, &train_on, &held_out, decoder, pad, seed, context.recorder)?;
    finish(outcome, |result| {
        result.decoder.save(context.out)?;
        tokenizer.save(context.out)?;
        Ok(serde_json::json!(result.summary))
    })
}

/// BOS if the tokenizer has one, the text, EOS.
fn whole(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, StageError> {
    let mut ids = tokenizer.encode_prompt(text)?;
    ids.push(tokenizer.eos_id());
    Ok(ids)
}

/// The decoder of a model made from scratch, for a tokenizer that was trained for it.
fn shape(architecture: &Architecture, tokenizer: &Tokenizer) -> LlamaConfig {
    LlamaConfig {
        vocab_size: tokenizer.vocab_size(),
        hidden_size: architecture.hidden_size,
        intermediate_size: architecture.intermediate_size,
        num_hidden_layers: architecture.num_hidden_layers,
        num_attention_heads: architecture.num_attention_heads,
        num_key_value_heads: architecture.num_key_value_heads,
        head_dim: architecture.hidden_size / architecture.num_attention_heads,
        max_position_embeddings: architecture.max_position_embeddings,
        tie_word_embeddings: architecture.tie_word_embeddings,
        // The usual 0.02 suits widths near 1000; narrow models learn facts several times later with it.
        initializer_range: (architecture.hidden_size as f64).sqrt().recip(),
        bos_token_id: tokenizer.bos_id(),
        eos_token_id: vec![tokenizer.eos_id()],
        pad_token_id: Some(tokenizer.pad_id()),
        ..LlamaConfig::default()
    }
}

/// Splits off `ratio` of the documents, spread evenly over the shuffled order; at least one is trained on.
fn hold_out(documents: Vec<Document>, ratio: f64, seed: u64) -> (Vec<Document>, Vec<Document>) {
    let order = data::order(documents.len(), seed, 0);
    let held = ((documents.len() as f64 * ratio).round() as usize).min(documents.len().saturating_sub(1));
    let held: std::collections::HashSet<usize> = order.into_iter().take(held).collect();
    let mut split = (Vec::new(), Vec::new());
    for (index, document) in documents.into_iter().enumerate() {
        if held.contains(&index) { split.1.push(document) } else { split.0.push(document) }
    }
    split
}
