//! A tokenizer small enough to be trained on the spot, and pairs made with it.

use std::sync::OnceLock;

use data::{Pair, Prompt, Template, Tokenizer};

const TEMPLATE: &str = "Question: {prompt}\nAnswer:";

/// Question, better answer, worse answer: of different lengths, some longer than their prompt.
const TEXTS: [(&str, &str, &str); 6] = [
    ("What colour is the sky?", "Blue.", "Green, I believe, or some other colour."),
    ("How many legs has a spider?", "A spider has eight legs.", "Six."),
    ("Who bakes the bread?", "The baker does.", "Silly question. The sailor does."),
    ("Où est le café ?", "Là-bas, près de la gare.", "No."),
    ("2 + 2?", "4", "5"),
    ("Where does the long road behind the old mill lead?", "To the sea.", "Nowhere at all, they say."),
];

/// A byte-level BPE of 300 tokens.
///
/// # Panics
/// Never, unless training tokenizers is broken.
pub fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        let texts = TEXTS.into_iter().flat_map(|(prompt, chosen, rejected)| {
            let render = |answer: &str| format!("Question: {prompt}\nAnswer: {answer}");
            [render(chosen), render(rejected)]
        });
        Tokenizer::train_bpe(texts, 300).expect("a tokenizer can be trained")
    })
}

/// A pair in the form that `prepare` writes.
///
/// # Panics
/// If the texts cannot be encoded.
pub fn pair(id: &str, prompt: &str, chosen: &str, rejected: &str) -> Pair {
    let tokenizer = tokenizer();
    let template = Template::new(TEMPLATE, tokenizer).expect("the template is valid");
    let (chosen, rejected) = (template.response(chosen), template.response(rejected));
    Pair {
        id: id.into(),
        question: id.into(),
        prompt: template.render(prompt),
        prompt_ids: template.encode(prompt).expect("encodes"),
        chosen_ids: tokenizer.encode_response(&chosen).expect("encodes"),
        rejected_ids: tokenizer.encode_response(&rejected).expect("encodes"),
        chosen,
        rejected,
        meta: None,
    }
}

/// Six pairs of different lengths, in several scripts.
pub fn pairs() -> Vec<Pair> {
    let numbered = TEXTS.into_iter().enumerate();
    numbered
        .map(|(n, (prompt, chosen, rejected))| pair(&format!("sample-{n}"), prompt, chosen, rejected))
        .collect()
}

/// The prompts of [`pairs`].
pub fn prompts() -> Vec<Prompt> {
    let prompt = |pair: Pair| Prompt {
        id: pair.id,
        prompt: pair.prompt,
        prompt_ids: pair.prompt_ids,
        reference: Some(pair.chosen),
        meta: None,
    };
    pairs().into_iter().map(prompt).collect()
}
