//! What is left out before anything is shared out, and why.

use crate::source::Question;
use crate::{DataError, Ledger, Reason, Template};

/// Drops questions whose prompt is empty or too long, and answers without text.
pub(crate) fn questions(
    questions: Vec<Question>,
    template: &Template<'_>,
    max_prompt_length: usize,
    ledger: &mut Ledger,
) -> Result<Vec<Question>, DataError> {
    let mut kept = Vec::with_capacity(questions.len());
    for mut question in questions {
        question.prompt = question.prompt.trim().to_owned();
        if question.prompt.is_empty() {
            ledger.drop(Reason::EmptyPrompt, question.id);
            continue;
        }
        if template.encode(&question.prompt)?.len() > max_prompt_length {
            ledger.drop(Reason::PromptTooLong, question.id);
            continue;
        }
        let id = &question.id;
        question.answers.retain(|answer| {
            let empty = answer.text.trim().is_empty();
            if empty {
                ledger.drop(Reason::EmptyResponse, format!("{id}/{}", answer.id));
            }
            !empty
        });
        kept.push(question);
    }
    Ok(kept)
}
