//! The offline judge: the answer with the higher reward is better.

use super::Request;
use crate::error::EvalError;
use crate::judgement::{Judgement, State, Verdict};

/// Scores closer than this are equal: rounding differs with the batch, and must not decide.
const SAME: f64 = 1e-6;

/// Judges one request from the rewards of its two answers. Equal texts tie whatever their scores are. A
/// score that is not finite is an error: the reward model is broken.
///
/// The scores know no order, so that one order per comparison is enough.
pub fn judge(request: &Request, score_a: f64, score_b: f64) -> Result<Judgement, EvalError> {
    for (model, score) in [(&request.key.model_a, score_a), (&request.key.model_b, score_b)] {
        if !score.is_finite() {
            let what = format!("the answer of `{model}` to prompt `{}`", request.key.id);
            return Err(EvalError::NotFinite { what, score });
        }
    }
    let verdict = if request.answer_a == request.answer_b || (score_a - score_b).abs() < SAME {
        Verdict::Tie
    } else if score_a > score_b {
        Verdict::A
    } else {
        Verdict::B
    };
    Ok(Judgement {
        verdict: Some(verdict),
        score_a: Some(score_a),
        score_b: Some(score_b),
        ..request.judgement(State::Ok)
    })
}
