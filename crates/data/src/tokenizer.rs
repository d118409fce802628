//! The one door between text and token ids, for every stage.
//!
//! A prompt is BOS (if the tokenizer has one) and text; a response is text and EOS; the ids of the whole
//! are one after the other. Nobody encodes a prompt and a response together and cuts afterwards, so what
//! a stage trains on, scores and generates from is the same ids by construction. Text is text: a
//! user's `</s>` never becomes a control token.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Model, Tokenizer as Inner};

use crate::DataError;

/// BOS and EOS of tokenizers trained here: a document begins where another one ended.
pub const BOS_EOS: &str = "<|endoftext|>";
/// Padding of tokenizers trained here. It stands in no text and is never a label.
pub const PAD: &str = "<|pad|>";

const TOKENIZER: &str = "tokenizer.json";
const CONFIG: &str = "tokenizer_config.json";
const SPECIALS: &str = "special_tokens_map.json";

/// A Hugging Face tokenizer with its special tokens known.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Inner,
    eos: u32,
    bos: Option<u32>,
    pad: u32,
    /// Control tokens by their text, in which templates may use them.
    specials: BTreeMap<String, u32>,
    /// The files it came from, byte for byte.
    files: BTreeMap<&'static str, Vec<u8>>,
}

impl Tokenizer {
    /// Loads `tokenizer.json` and the names of the special tokens from a model folder.
    pub fn load(dir: impl AsRef<Path>) -> Result<Self, DataError> {
        let dir = dir.as_ref();
        let mut files = BTreeMap::new();
        for name in [TOKENIZER, CONFIG, SPECIALS] {
            let path = dir.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => _ = files.insert(name, bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(DataError::read(&path)(error)),
            }
        }
        Self::from_files(files, dir)
    }

    /// Trains a byte-level BPE of at most `vocab_size` tokens, special ones included. The same texts give
    /// the same bytes every time. Every byte is in the vocabulary, so that no text is unknown.
    pub fn train_bpe(
        texts: impl Iterator<Item = String> + Send,
        vocab_size: usize,
    ) -> Result<Self, DataError> {
        let failed =
            |error: tokenizers::Error| DataError::Encode { action: "be trained", problem: error.to_string() };
        let smallest = ByteLevel::alphabet().len() + 2;
        if vocab_size < smallest {
            return Err(failed(format!("`vocab_size` {vocab_size} is below {smallest}").into()));
        }
        let specials = vec![AddedToken::from(BOS_EOS, true), AddedToken::from(PAD, true)];
        let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
            .vocab_size(vocab_size)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(specials)
            .build()
            .into();
        let mut inner = Inner::new(BPE::default());
        inner.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        inner.with_decoder(Some(ByteLevel::default()));
        inner.train(&mut trainer, texts).map_err(failed)?;
        let bos = inner.token_to_id(BOS_EOS).ok_or_else(|| failed("BOS was not added".into()))?;
        let processor = TemplateProcessing::builder()
            .try_single(format!("{BOS_EOS} $A"))
            .and_then(|builder| builder.try_pair(format!("{BOS_EOS} $A $B:1")))
            .map_err(|error| failed(error.into()))?
            .special_tokens(vec![(BOS_EOS, bos)])
            .build()
            .map_err(|error| failed(error.to_string().into()))?;
        inner.with_post_processor(Some(processor));

        let mut tokenizer_json = inner.to_string(true).map_err(failed)?;
        tokenizer_json.push('\n');
        let map = json!({ "bos_token": BOS_EOS, "eos_token": BOS_EOS, "pad_token": PAD });
        let config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS_EOS,
            "eos_token": BOS_EOS,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": false,
        });
        let files = BTreeMap::from([
            (TOKENIZER, tokenizer_json.into_bytes()),
            (CONFIG, format!("{config:#}\n").into_bytes()),
            (SPECIALS, format!("{map:#}\n").into_bytes()),
        ]);
        Self::from_files(files, Path::new("<trained>"))
    }

    fn from_files(files: BTreeMap<&'static str, Vec<u8>>, dir: &Path) -> Result<Self, DataError> {
        let problem = |problem: String| DataError::Tokenizer { path: PathBuf::from(dir), problem };
        let bytes = files.get(TOKENIZER).ok_or_else(|| problem(format!("there is no `{TOKENIZER}`")))?;
        let mut inner = Inner::from_bytes(bytes).map_err(|e| problem(format!("`{TOKENIZER}`: {e}")))?;
        inner.with_truncation(None).map_err(|e| problem(e.to_string()))?;
        inner.with_padding(None);
        inner.set_encode_special_tokens(true);

        let mut names = serde_json::Map::new();
        for file in [SPECIALS, CONFIG] {
            let Some(bytes) = files.get(file) else { continue };
            match serde_json::from_slice(bytes) {
                Ok(Value::Object(map)) => names.extend(map.into_iter().filter(|(_, value)| !value.is_null())),
                Ok(_) => return Err(problem(format!("`{file}` is not a JSON object"))),
                Err(error) => return Err(problem(format!("`{file}`: {error}"))),
            }
        }
        let id_of = |key: &str| -> Result<Option<u32>, DataError> {
            let Some(name) = names.get(key).and_then(token_text) else { return Ok(None) };
            match inner.token_to_id(name) {
                Some(id) => Ok(Some(id)),
                None => Err(problem(format!("{key} `{name}` is not in the vocabulary"))),
            }
        };
        let eos = id_of("eos_token")?
            .ok_or_else(|| problem(format!("neither `{CONFIG}` nor `{SPECIALS}` names an `eos_token`")))?;
        let pad = id_of("pad_token")?.unwrap_or(eos);
        let wants_bos = names.get("add_bos_token").and_then(Value::as_bool).unwrap_or(false);
        let bos = match added_bos(&inner).map_err(|e| problem(e.to_string()))? {
            None if wants_bos => id_of("bos_token")?,
            found => found,
        };
        let specials = inner
            .get_added_tokens_decoder()
            .into_iter()
            .filter(|(_, token)| token.special)
            .map(|(id, token)| (token.content, id))
            .collect();
        Ok(Self { inner, eos, bos, pad, specials, files })
    }

    /// Writes the tokenizer's files into a folder, byte for byte as they were loaded or trained.
    pub fn save(&self, dir: impl AsRef<Path>) -> Result<(), DataError> {
        for (name, bytes) in &self.files {
            let path = dir.as_ref().join(name);
            std::fs::write(&path, bytes).map_err(DataError::write(&path))?;
        }
        Ok(())
    }

    /// BLAKE3 of the tokenizer's files; equal hashes mean equal ids.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (name, bytes) in &self.files {
            hasher.update(name.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
        hasher.finalize().to_hex().to_string()
    }

    /// A prompt: BOS, if the tokenizer has one, exactly once, and the text.
    pub fn encode_prompt(&self, prompt: &str) -> Result<Vec<u32>, DataError> {
        let mut ids: Vec<u32> = self.bos.into_iter().collect();
        ids.extend(self.encode_text(prompt)?);
        Ok(ids)
    }

    /// A response: the text as it follows the prompt, and EOS once as a token of its own.
    pub fn encode_response(&self, response: &str) -> Result<Vec<u32>, DataError> {
        let mut ids = self.encode_text(response)?;
        ids.push(self.eos);
        Ok(ids)
    }

    /// Text alone, with nothing added. What looks like a control token stays text.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|error| DataError::Encode { action: "encode a text", problem: error.to_string() })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of ids, control tokens left out. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        self.inner
            .decode(ids, true)
            .map_err(|error| DataError::Encode { action: "decode ids", problem: error.to_string() })
    }

    pub fn eos_id(&self) -> u32 {
        self.eos
    }

    /// The token every prompt begins with, if this tokenizer has one.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos
    }

    /// The tokenizer's own padding; EOS if it has none (a mask decides what counts, never the id).
    pub fn pad_id(&self) -> u32 {
        self.pad
    }

    /// One more than the largest id: the rows that an embedding needs at least.
    pub fn vocab_size(&self) -> usize {
        let added = self.inner.get_added_tokens_decoder().into_keys().max().map_or(0, |id| id as usize + 1);
        let model: &ModelWrapper = self.inner.get_model();
        added.max(model.get_vocab().into_values().max().map_or(0, |id| id as usize + 1))
    }

    /// Control tokens and their ids, by text.
    pub fn special_tokens(&self) -> &BTreeMap<String, u32> {
        &self.specials
    }
}

/// The token that the tokenizer itself puts before a text.
fn added_bos(inner: &Inner) -> Result<Option<u32>, tokenizers::Error> {
    let bare = inner.encode("a", false)?;
    let full = inner.encode("a", true)?;
    let (bare, full) = (bare.get_ids(), full.get_ids());
    Ok(full.split_first().filter(|(_, rest)| !bare.is_empty() && rest.starts_with(bare)).map(|(&bos, _)| bos))
}

/// A special token's text, written plainly or as an object with `content`.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}
