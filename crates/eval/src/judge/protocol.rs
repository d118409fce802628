//! The part of the chat-completions protocol that a judge needs, and what each reply means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::parse::{Parsed, parse};
use super::prompt::Message;
use crate::judgement::{State, Verdict};

/// Body of `POST /chat/completions`.
#[derive(Debug, Serialize)]
pub(super) struct Chat<'a> {
    pub model: &'a str,
    pub messages: &'a [Message],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_completion_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    message: Reply,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Reply {
    content: Option<String>,
    refusal: Option<String>,
}

/// Tokens of one exchange, as the endpoint counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

/// What one exchange comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Answered {
    /// Final: a verdict on the shown order, or a state without one.
    Judged { state: State, verdict: Option<Verdict>, reason: String, usage: Option<Usage> },
    /// Worth another attempt; `give_up` is the state if there is none left.
    Again { give_up: State, reason: String, after: Option<Duration>, throttled: bool, usage: Option<Usage> },
    /// The endpoint does not know the classic parameters; ask in the newer form.
    NewerForm,
    /// No request can succeed.
    Hopeless { status: u16, message: String },
}

/// Reads the body of a 200.
pub(super) fn success(body: &[u8]) -> Answered {
    let again = |reason: &str, give_up, usage| Answered::Again {
        give_up,
        reason: reason.into(),
        after: None,
        throttled: false,
        usage,
    };
    let completion: Completion = match serde_json::from_slice(body) {
        Ok(completion) => completion,
        Err(_) => return again("the reply is not a chat completion", State::Error, None),
    };
    let usage = completion.usage;
    let Some(choice) = completion.choices.into_iter().next() else {
        return again("the reply has no choice", State::Error, usage);
    };
    let judged = |state, verdict, reason| Answered::Judged { state, verdict, reason, usage };
    let finish = choice.finish_reason.unwrap_or_default();
    let content = choice.message.content.unwrap_or_default();
    if let Some(refusal) = choice.message.refusal.filter(|text| !text.is_empty()) {
        return judged(State::Refused, None, refusal);
    }
    match finish.as_str() {
        "content_filter" => return judged(State::Refused, None, "stopped by the content filter".into()),
        "length" => return judged(State::Unparsable, None, "the reply hit the token limit".into()),
        _ if content.trim().is_empty() => return again("the reply is empty", State::Unparsable, usage),
        _ => {}
    }
    match parse(&content) {
        Parsed::Verdict(verdict) => judged(State::Ok, Some(verdict), content),
        Parsed::Unparsable(why) => judged(State::Unparsable, None, format!("{why}: {content}")),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure {
    error: FailureDetail,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FailureDetail {
    message: Option<String>,
    code: Option<serde_json::Value>,
    param: Option<String>,
}

/// Reads any other status.
pub(super) fn failure(status: u16, after: Option<Duration>, body: &[u8]) -> Answered {
    let detail = serde_json::from_slice::<Failure>(body).unwrap_or_default().error;
    let code = detail.code.as_ref().and_then(|code| code.as_str()).unwrap_or_default();
    let text = detail.message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let message: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
    let reason = format!("HTTP {status}: {message}");
    let judged = |state| Answered::Judged { state, verdict: None, reason: reason.clone(), usage: None };
    match status {
        429 if code == "insufficient_quota" => Answered::Hopeless { status, message },
        429 => Answered::Again { give_up: State::Error, reason, after, throttled: true, usage: None },
        408 | 409 | 425 | 500.. => {
            Answered::Again { give_up: State::Error, reason, after, throttled: false, usage: None }
        }
        400 if matches!(detail.param.as_deref(), Some("max_tokens" | "temperature")) => Answered::NewerForm,
        400 if code == "content_filter" => judged(State::Refused),
        // Of this request only: too long, or text that the endpoint does not take.
        400 | 413 | 422 => judged(State::Error),
        _ => Answered::Hopeless { status, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(body: &str) -> (State, Option<Verdict>) {
        match success(body.as_bytes()) {
            Answered::Judged { state, verdict, .. } => (state, verdict),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a103_each_reply_has_its_state() {
        let reply = |content: &str, finish: &str| {
            format!(r#"{{"choices":[{{"message":{{"content":{content}}},"finish_reason":"{finish}"}}]}}"#)
        };
        assert_eq!(state(&reply(r#""fine\n[[B]]""#, "stop")), (State::Ok, Some(Verdict::B)));
        assert_eq!(state(&reply(r#""no idea""#, "stop")), (State::Unparsable, None));
        assert_eq!(state(&reply(r#""[[A]]""#, "length")), (State::Unparsable, None));
        assert_eq!(state(&reply("null", "content_filter")), (State::Refused, None));
        let refusal =
            r#"{"choices":[{"message":{"content":null,"refusal":"I can't help"},"finish_reason":"stop"}]}"#;
        assert_eq!(state(refusal), (State::Refused, None));
        for body in [&reply(r#""""#, "stop"), "{\"choices\":[]}", "{\"choices\":[{\"mess", "<html>", "{}"] {
            assert!(matches!(success(body.as_bytes()), Answered::Again { .. }), "{body}");
        }
    }

    #[test]
    fn a105_statuses() {
        let quota = br#"{"error":{"message":"pay","code":"insufficient_quota"}}"#;
        assert!(matches!(failure(429, None, quota), Answered::Hopeless { status: 429, .. }));
        assert!(matches!(failure(429, None, b"slow"), Answered::Again { throttled: true, .. }));
        assert!(matches!(failure(503, None, b""), Answered::Again { throttled: false, .. }));
        assert!(matches!(failure(401, None, b""), Answered::Hopeless { status: 401, .. }));
        let newer = br#"{"error":{"message":"use max_completion_tokens","param":"max_tokens"}}"#;
        assert_eq!(failure(400, None, newer), Answered::NewerForm);
        let long = br#"{"error":{"message":"context length","code":"context_length_exceeded"}}"#;
        assert!(matches!(failure(400, None, long), Answered::Judged { state: State::Error, .. }));
    }
}
