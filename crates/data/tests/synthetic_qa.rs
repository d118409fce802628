//! The quickstart's world through preparation: how much there is of it, and how short its texts are.

use data::source::synthetic_qa::{available, check};
use data::{PreparedData, Tokenizer, prepare, texts, validate_prepare};
use spec::stage::{Format, Prepare, Source};
use testkit::Project;

fn world(questions: usize) -> Source {
    Source { format: Format::SyntheticQa, questions, ..Source::default() }
}

#[test]
fn the_whole_world_is_prepared_and_its_texts_are_short() {
    let documents = texts(&world(2_000), 1).expect("generates").into_iter().map(|document| document.text);
    let tokenizer = Tokenizer::train_bpe(documents, 640).expect("trains");
    assert!(tokenizer.vocab_size() < 640, "every word is one token: {}", tokenizer.vocab_size());
    let config = Prepare {
        source: world(available()),
        max_prompt_length: 24,
        max_response_length: 24,
        split: [("sft".into(), 4.0), ("ppo".into(), 3.0), ("judge".into(), 3.0)].into(),
        eval: 300,
        ..Prepare::default()
    };
    validate_prepare(&config).expect("is valid");
    let project = Project::new();
    let card = prepare(&config, &tokenizer, 7, project.root()).expect("prepares");
    // Lengths: nothing is dropped. Two answers may be the same by chance, and then make no pair.
    assert_eq!(card.prompts_kept, available());
    assert!(card.pairs_kept > 2 * available(), "{}", card.pairs_kept);
    for split in card.splits.values() {
        assert!(split.prompt_tokens.mean < 17.0 && split.chosen_tokens.mean < 14.0, "{split:?}");
    }
    let data = PreparedData::open(project.root()).expect("opens");
    for prompt in data.prompts("eval").expect("reads") {
        let (meta, reference) = (prompt.meta.expect("meta"), prompt.reference.expect("a reference"));
        let verdict = check(&meta, &reference);
        assert!(verdict.correct && verdict.polite && verdict.concise, "{reference}");
    }
}
