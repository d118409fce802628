//! `prompt_template`: what stands before and after a prompt, and how its control tokens are encoded.

use crate::{DataError, Tokenizer};

const PLACE: &str = "{prompt}";

/// A prompt template, bound to the tokenizer whose control tokens it may use.
///
/// Control tokens written in the template (`<|im_start|>`) are control tokens; the same characters
/// inside a user's prompt are text. Everything between two control tokens is encoded as one text, so
/// that the template leaves no seam where a model would not expect one.
#[derive(Debug, Clone)]
pub struct Template<'a> {
    before: Vec<Piece>,
    after: Vec<Piece>,
    tokenizer: &'a Tokenizer,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Control(String, u32),
}

impl<'a> Template<'a> {
    /// Reads a template; `{prompt}` must stand in it exactly once.
    pub fn new(template: &str, tokenizer: &'a Tokenizer) -> Result<Self, DataError> {
        let (before, after) = halves(template)?;
        Ok(Self { before: pieces(before, tokenizer), after: pieces(after, tokenizer), tokenizer })
    }

    /// The prompt with the template around it, as text.
    pub fn render(&self, prompt: &str) -> String {
        let mut text = String::new();
        for piece in self.with(prompt) {
            match piece {
                Piece::Text(part) | Piece::Control(part, _) => text.push_str(&part),
            }
        }
        text
    }

    /// The ids of the rendered prompt, with BOS exactly once if the tokenizer has one, whether or not
    /// the template writes it.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>, DataError> {
        let mut ids: Vec<u32> = self.tokenizer.bos_id().into_iter().collect();
        for (place, piece) in self.with(prompt).into_iter().enumerate() {
            match piece {
                Piece::Control(_, id) if place == 0 && Some(id) == self.tokenizer.bos_id() => {}
                Piece::Control(_, id) => ids.push(id),
                Piece::Text(text) => ids.extend(self.tokenizer.encode_text(&text)?),
            }
        }
        Ok(ids)
    }

    /// A response as it follows the rendered prompt: trimmed, and after a space unless the template ends
    /// with white space or a control token.
    pub fn response(&self, response: &str) -> String {
        let response = response.trim();
        let spaced = match self.after.last() {
            Some(Piece::Text(text)) => !text.ends_with(char::is_whitespace),
            Some(Piece::Control(..)) => false,
            None => true,
        };
        if spaced { format!(" {response}") } else { response.to_owned() }
    }

    /// The pieces around `prompt`, neighbouring texts joined.
    fn with(&self, prompt: &str) -> Vec<Piece> {
        let mut joined: Vec<Piece> = Vec::new();
        let prompt = [Piece::Text(prompt.to_owned())];
        for piece in self.before.iter().chain(&prompt).chain(&self.after) {
            match (joined.last_mut(), piece) {
                (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(more),
                _ => joined.push(piece.clone()),
            }
        }
        joined
    }
}

/// What stands before and after `{prompt}`.
pub(crate) fn halves(template: &str) -> Result<(&str, &str), DataError> {
    let problem = |problem: &str| DataError::Template { problem: problem.into() };
    let (before, after) = template.split_once(PLACE).ok_or_else(|| problem("has no place for the prompt"))?;
    if after.contains(PLACE) {
        return Err(problem("has more than one place for the prompt"));
    }
    Ok((before, after))
}

/// Cuts a part of the template at its control tokens; of two that begin at the same place, the longer.
fn pieces(mut text: &str, tokenizer: &Tokenizer) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let next = tokenizer
            .special_tokens()
            .iter()
            .filter_map(|(token, &id)| Some((text.find(token.as_str())?, token, id)))
            .min_by_key(|(at, token, _)| (*at, std::cmp::Reverse(token.len())));
        let Some((at, token, id)) = next else {
            pieces.push(Piece::Text(text.to_owned()));
            break;
        };
        if at > 0 {
            pieces.push(Piece::Text(text[..at].to_owned()));
        }
        pieces.push(Piece::Control(token.clone(), id));
        text = &text[at + token.len()..];
    }
    pieces
}
