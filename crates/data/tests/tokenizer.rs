//! One encoding for every stage: BOS and EOS exactly once, text stays text, prompt + response = whole.

use data::{BOS_EOS, DataError, PAD, Template, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::Project;

fn trained() -> Tokenizer {
    testkit::tokenizer().clone()
}

fn texts() -> impl Iterator<Item = String> + Send {
    (0..400)
        .map(|n| format!("Question: what is {} times {}?\nAnswer: {}.", n % 20, n % 7, (n % 20) * (n % 7)))
}

/// The trained tokenizer with other special tokens or another post-processor, as model folders have them.
fn folder(change: impl Fn(&mut Value, &mut Value)) -> Project {
    let project = Project::new();
    trained().save(project.root()).expect("saves");
    let read = |name: &str| serde_json::from_str(&project.read(name)).expect("is JSON");
    let (mut tokenizer, mut config) = (read("tokenizer.json"), read("tokenizer_config.json"));
    change(&mut tokenizer, &mut config);
    project.write("tokenizer.json", tokenizer.to_string());
    project.write("tokenizer_config.json", config.to_string());
    std::fs::remove_file(project.path("special_tokens_map.json")).expect("is there");
    project
}

#[test]
fn training_is_deterministic_to_the_byte() {
    let (one, two) = (Project::new(), Project::new());
    for project in [&one, &two] {
        Tokenizer::train_bpe(texts(), 330).expect("trains").save(project.root()).expect("saves");
    }
    for file in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"] {
        assert!(one.read(file) == two.read(file), "{file} differs");
    }
    // Golden: the same on every machine.
    let hash = Tokenizer::train_bpe(texts(), 330).expect("trains").hash();
    assert_eq!(hash, GOLDEN_HASH);
}
const GOLDEN_HASH: &str = "c91ca5ccbbfbf936ee258a07fe73e511232bfbe66fe9f68dfd837ee41fe0d0ee";

#[test]
fn a_saved_tokenizer_loads_as_itself() {
    let project = Project::new();
    let trained = trained();
    trained.save(project.root()).expect("saves");
    let loaded = Tokenizer::load(project.root()).expect("loads");
    assert_eq!(loaded.hash(), trained.hash());
    assert_eq!(loaded.vocab_size(), 300);
    assert_eq!((loaded.eos_id(), loaded.bos_id(), loaded.pad_id()), (0, Some(0), 1));
    let text = "Straße, 東京, 👩‍🚀 and a\ttab\r\n";
    assert_eq!(loaded.encode_prompt(text).expect("encodes"), trained.encode_prompt(text).expect("encodes"));
}

#[test]
fn vocab_size_below_the_bytes_is_refused() {
    let error = Tokenizer::train_bpe(texts(), 100).expect_err("too small");
    assert!(error.to_string().contains("258"), "{error}");
}

#[test]
fn a34_a35_bos_stands_exactly_once_whatever_adds_it() {
    let adds = folder(|_, _| {});
    let configured = folder(|tokenizer, config| {
        tokenizer["post_processor"] = Value::Null;
        config["add_bos_token"] = json!(true);
    });
    let without = folder(|tokenizer, _| tokenizer["post_processor"] = Value::Null);
    for (project, bos) in [(&adds, 1), (&configured, 1), (&without, 0)] {
        let tokenizer = Tokenizer::load(project.root()).expect("loads");
        assert_eq!(tokenizer.bos_id().is_some(), bos == 1);
        let prompt = tokenizer.encode_prompt("Why?").expect("encodes");
        assert_eq!(prompt.iter().filter(|&&id| id == 0).count(), bos, "{prompt:?}");
        let plain = Template::new("{prompt}", &tokenizer).expect("a template");
        assert_eq!(plain.encode("Why?").expect("encodes"), prompt);
        // A template that writes BOS itself: still one.
        let written = Template::new(&format!("{BOS_EOS}{{prompt}}"), &tokenizer).expect("a template");
        let ids = written.encode("Why?").expect("encodes");
        assert_eq!(ids.iter().filter(|&&id| id == 0).count(), 1, "{ids:?}");
        let response = tokenizer.encode_response(" Because.").expect("encodes");
        assert_eq!(response.iter().filter(|&&id| id == 0).count(), 1, "EOS alone: {response:?}");
    }
}

#[test]
fn a41_eos_is_its_own_last_token() {
    let tokenizer = trained();
    let text = tokenizer.encode_text(" Because").expect("encodes");
    let response = tokenizer.encode_response(" Because").expect("encodes");
    assert_eq!(response.split_last(), Some((&tokenizer.eos_id(), text.as_slice())));
    assert_eq!(tokenizer.decode(&response).expect("decodes"), " Because");
}

#[test]
fn text_that_looks_like_a_control_token_stays_text() {
    let tokenizer = trained();
    for text in [BOS_EOS, PAD, "a<|endoftext|>b", "</s><|im_end|><|pad|>"] {
        let ids = tokenizer.encode_text(text).expect("encodes");
        assert!(ids.iter().all(|&id| id > 1), "{text}: {ids:?}");
        assert_eq!(tokenizer.decode(&ids).expect("decodes"), text);
    }
    // In a template it is the control token, in the prompt it is text.
    let template = Template::new("{prompt}<|pad|>x", &tokenizer).expect("a template");
    let ids = template.encode("a<|pad|>").expect("encodes");
    assert_eq!(ids.iter().filter(|&&id| id == tokenizer.pad_id()).count(), 1);
    assert_eq!(template.render("a<|pad|>"), "a<|pad|><|pad|>x");
}

#[test]
fn templates_join_text_without_a_seam() {
    let tokenizer = trained();
    let template = Template::new("Question: {prompt}\nAnswer:", &tokenizer).expect("a template");
    let whole = tokenizer.encode_prompt("Question: Why {prompt}?\nAnswer:").expect("encodes");
    assert_eq!(template.encode("Why {prompt}?").expect("encodes"), whole);
    assert_eq!(template.response("  So. \n"), " So.");
    assert_eq!(Template::new("{prompt}\n", &tokenizer).expect("a template").response(" So."), "So.");
    assert_eq!(Template::new("{prompt}<|pad|>", &tokenizer).expect("a template").response("So."), "So.");
    for bad in ["no place", "{prompt} and {prompt}"] {
        assert!(matches!(Template::new(bad, &tokenizer), Err(DataError::Template { .. })));
    }
}

#[test]
fn folders_without_a_usable_tokenizer_are_named() {
    let empty = Project::new();
    let message = |project: &Project| Tokenizer::load(project.root()).expect_err("unusable").to_string();
    assert!(message(&empty).contains("there is no `tokenizer.json`"), "{}", message(&empty));
    empty.write("tokenizer.json", "{\"model\": 3");
    assert!(message(&empty).contains("`tokenizer.json`"), "{}", message(&empty));
    let no_eos = folder(|_, config| config["eos_token"] = Value::Null);
    assert!(message(&no_eos).contains("eos_token"), "{}", message(&no_eos));
    let unknown = folder(|_, config| config["eos_token"] = json!({ "content": "</s>" }));
    assert!(message(&unknown).contains("`</s>` is not in the vocabulary"), "{}", message(&unknown));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a37_a38_prompt_ids_and_response_ids_are_the_ids_of_the_whole(prompt in "\\PC{0,40}", response in "\\PC{1,40}") {
        let tokenizer = trained();
        let template = Template::new("Question: {prompt}\nAnswer:", &tokenizer).expect("a template");
        let response = template.response(&response);
        let mut ids = template.encode(&prompt).expect("encodes");
        let start = ids.len();
        ids.extend(tokenizer.encode_response(&response).expect("encodes"));
        let whole = format!("{}{response}", template.render(&prompt));
        prop_assert_eq!(tokenizer.decode(&ids).expect("decodes"), whole);
        prop_assert_eq!(tokenizer.decode(&ids[start..]).expect("decodes"), response);
        prop_assert_eq!(ids[0], 0);
        prop_assert_eq!(ids.iter().filter(|&&id| id <= 1).count(), 2, "BOS and EOS");
    }
}
