//! `kind = "prepare"`: from a source to the files of [`crate::PreparedData`].

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use spec::stage::Prepare;

use crate::source::{self, Question};
use crate::{
    Card, DataError, Ledger, LengthStats, Pair, Prompt, Reason, SplitCard, Template, Tokenizer, clean, pairs,
    prepared, split,
};

/// Reads the source, cleans it, shares the questions out and writes pairs, prompts, the tokenizer and, last,
/// `card.json` into the folder `out`, which must exist. The same arguments write the same bytes.
///
/// # Errors
/// Besides what the source and the tokenizer report: no question, or no pair in any split, survived.
pub fn prepare(config: &Prepare, tokenizer: &Tokenizer, seed: u64, out: &Path) -> Result<Card, DataError> {
    let template = Template::new(&config.prompt_template, tokenizer)?;
    split::validate(&config.split)?;
    let (questions, mut ledger) = source::read(&config.source, seed)?;
    let mut card = Card {
        questions_read: questions.len(),
        answers_read: questions.iter().map(|question| question.answers.len()).sum(),
        tokenizer: tokenizer.hash(),
        ..Card::default()
    };
    let questions = clean::questions(questions, &template, config.max_prompt_length, &mut ledger)?;
    if questions.is_empty() {
        return Err(nothing_left("the questions", &ledger));
    }
    let splits = split::assign(&questions, &config.split, config.eval, seed)?;

    let mut maker = Maker { config, template, tokenizer, seed, ledger, seen: HashSet::new() };
    let mut rows = BTreeMap::new();
    for (name, members) in &splits.members {
        let (mut pairs, mut prompts) = (Vec::new(), Vec::new());
        let mut asked = HashSet::new();
        for &member in members {
            let question = &questions[member];
            let prompt = maker.prompt(question)?;
            pairs.extend(maker.pairs(question, &splits.group[member], &prompt)?);
            if asked.insert(prompt.prompt.clone()) {
                prompts.push(prompt);
            } else {
                maker.ledger.drop(Reason::DuplicatePrompt, prompt.id);
            }
        }
        card.splits.insert(name.clone(), split_card(&pairs, &prompts));
        card.prompts_kept += prompts.len();
        card.pairs_kept += pairs.len();
        rows.insert(name, (pairs, prompts));
    }
    if card.pairs_kept == 0 {
        return Err(nothing_left("the preference pairs", &maker.ledger));
    }
    card.dropped = maker.ledger;
    for (name, (pairs, prompts)) in rows {
        prepared::write_split(out, name, &pairs, &prompts)?;
    }
    tokenizer.save(out)?;
    prepared::write_card(out, &card)?;
    Ok(card)
}

/// Turns questions into rows of ids.
struct Maker<'a> {
    config: &'a Prepare,
    template: Template<'a>,
    tokenizer: &'a Tokenizer,
    seed: u64,
    ledger: Ledger,
    /// Hashes of the pairs made so far.
    seen: HashSet<blake3::Hash>,
}

impl Maker<'_> {
    fn prompt(&self, question: &Question) -> Result<Prompt, DataError> {
        // Of equal scores the first answer is the reference, so `max_by_key` sees them backwards.
        let best = || question.answers.iter().rev().max_by_key(|answer| answer.score);
        let reference = question.reference.as_ref().or_else(|| best().map(|answer| &answer.text));
        Ok(Prompt {
            id: question.id.clone(),
            prompt: self.template.render(&question.prompt),
            prompt_ids: self.template.encode(&question.prompt)?,
            reference: reference.map(|text| self.template.response(text)),
            meta: question.meta.clone(),
        })
    }

    fn pairs(&mut self, question: &Question, group: &str, prompt: &Prompt) -> Result<Vec<Pair>, DataError> {
        let mut kept = Vec::new();
        let limit = self.config.max_pairs_per_question;
        for (better, worse) in pairs::of(question, limit, self.seed, &mut self.ledger) {
            let (chosen, rejected) =
                (self.template.response(&better.text), self.template.response(&worse.text));
            let pair = Pair {
                id: pairs::id(question, better, worse),
                question: group.to_owned(),
                prompt: prompt.prompt.clone(),
                chosen_ids: self.tokenizer.encode_response(&chosen)?,
                rejected_ids: self.tokenizer.encode_response(&rejected)?,
                chosen,
                rejected,
                prompt_ids: prompt.prompt_ids.clone(),
                meta: question.meta.clone(),
            };
            match self.unfit(&pair) {
                Some(reason) => self.ledger.drop(reason, pair.id),
                None => kept.push(pair),
            }
        }
        Ok(kept)
    }

    /// Why a pair cannot be used, if so.
    fn unfit(&mut self, pair: &Pair) -> Option<Reason> {
        if pair.chosen_ids.len().max(pair.rejected_ids.len()) > self.config.max_response_length {
            return Some(Reason::ResponseTooLong);
        }
        if pair.chosen_ids == pair.rejected_ids {
            return Some(Reason::SameResponses);
        }
        let mut hasher = blake3::Hasher::new();
        for text in [&pair.prompt, &pair.chosen, &pair.rejected] {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        (!self.seen.insert(hasher.finalize())).then_some(Reason::DuplicatePair)
    }
}

fn split_card(pairs: &[Pair], prompts: &[Prompt]) -> SplitCard {
    SplitCard {
        prompts: prompts.len(),
        pairs: pairs.len(),
        prompt_tokens: LengthStats::of(prompts.iter().map(|prompt| prompt.prompt_ids.len()).collect()),
        chosen_tokens: LengthStats::of(pairs.iter().map(|pair| pair.chosen_ids.len()).collect()),
        rejected_tokens: LengthStats::of(pairs.iter().map(|pair| pair.rejected_ids.len()).collect()),
    }
}

fn nothing_left(what: &str, ledger: &Ledger) -> DataError {
    DataError::NothingLeft { what: what.into(), dropped: ledger.reasons() }
}
