//! One request to the endpoint, asked until it has a judgement.
//!
//! Throttling, server errors, lost connections and unreadable replies are asked again with back-off. The
//! key lives in one header and is cut out of every text that leaves this module.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::watch;

use super::Request;
use super::backoff::{Backoff, Gate, retry_after};
use super::prompt::Message;
use super::protocol::{Answered, Chat, Usage, failure, success};
use crate::error::EvalError;
use crate::judgement::{Judgement, State};

/// Tokens that a judge may reply with.
pub(super) const MAX_REPLY_TOKENS: u64 = 1024;
/// A throttled request may be asked this many times as often as a failing one.
const THROTTLED_FACTOR: u32 = 10;

/// A rendered request and the hash of all that is asked.
pub(super) struct Prepared {
    pub request: Request,
    pub messages: Vec<Message>,
    pub hash: String,
}

impl Prepared {
    /// Three bytes a token, which real tokenizers stay below on text of any script.
    pub fn estimated_prompt_tokens(&self) -> u64 {
        self.messages.iter().map(|message| message.content.len() as u64 / 3 + 8).sum()
    }
}

/// The connection pool and what every request shares.
pub(super) struct Endpoint {
    client: reqwest::Client,
    url: Url,
    model: String,
    key: Option<String>,
    max_attempts: u32,
    pub backoff: Backoff,
    gate: Gate,
    /// Set once the endpoint has refused `max_tokens` or `temperature`.
    newer_form: AtomicBool,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.display_url()).field("model", &self.model).finish()
    }
}

impl Endpoint {
    pub fn new(config: &spec::stage::Judge, key: Option<String>) -> Result<Self, EvalError> {
        let client_error = |message: String| EvalError::Client { message };
        let base = config.base_url.trim_end_matches('/');
        let url = Url::parse(&format!("{base}/chat/completions"))
            .map_err(|e| client_error(format!("base_url {:?}: {e}", config.base_url)))?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| client_error(format!("the key in {} is not printable", config.api_key_env)))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // Fails where another part of the program has installed one: as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let timeout = Duration::try_from_secs_f64(config.timeout)
            .map_err(|e| client_error(format!("timeout = {}: {e}", config.timeout)))?;
        let builder = reqwest::Client::builder()
            .default_headers(headers)
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none());
        let builder = if local { builder.no_proxy() } else { builder };
        Ok(Self {
            client: builder.build().map_err(|e| client_error(e.to_string()))?,
            url,
            model: config.model.clone(),
            key,
            max_attempts: u32::try_from(config.max_attempts).unwrap_or(u32::MAX).max(1),
            backoff: Backoff::default(),
            gate: Gate::new(),
            newer_form: AtomicBool::new(false),
        })
    }

    /// Where requests go, without user, password and query.
    pub fn display_url(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map_or(String::new(), |port| format!(":{port}"));
        format!("{}://{host}{port}{}", self.url.scheme(), self.url.path())
    }

    /// BLAKE3 of endpoint, model, parameters and messages (a106, a107).
    pub fn hash(&self, messages: &[Message]) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("pipeline judge request v1");
        let mut field = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        field(&self.display_url());
        field(&self.model);
        field(&MAX_REPLY_TOKENS.to_string());
        for message in messages {
            field(&message.role);
            field(&message.content);
        }
        hasher.finalize().to_hex()[..32].to_string()
    }

    /// Asks until there is a judgement. `None` if `stopped` came between two attempts.
    pub async fn ask(
        &self,
        prepared: &Prepared,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<Option<Judgement>, EvalError> {
        let mut total = Usage::default();
        let (mut failures, mut throttles) = (0, 0);
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return Ok(None),
                () = self.gate.pass() => {}
            }
            match self.exchange(prepared).await {
                Answered::Judged { state, verdict, reason, usage } => {
                    add(&mut total, usage);
                    let order = prepared.request.key.order;
                    let mut judgement = self.judgement(prepared, state, &reason, total);
                    judgement.verdict = verdict.map(|shown| shown.unswapped(order));
                    return Ok(Some(judgement));
                }
                Answered::NewerForm if !self.newer_form.swap(true, Ordering::Relaxed) => {}
                Answered::NewerForm => {
                    let reason = "HTTP 400: the endpoint takes neither form of the parameters";
                    return Ok(Some(self.judgement(prepared, State::Error, reason, total)));
                }
                Answered::Hopeless { status, message } => {
                    return Err(EvalError::Rejected { status, message: self.redact(&message) });
                }
                Answered::Again { give_up, reason, after, throttled, usage } => {
                    add(&mut total, usage);
                    if throttled {
                        throttles += 1
                    } else {
                        failures += 1
                    }
                    if failures >= self.max_attempts
                        || throttles >= self.max_attempts.saturating_mul(THROTTLED_FACTOR)
                    {
                        return Ok(Some(self.judgement(prepared, give_up, &reason, total)));
                    }
                    tracing::debug!(id = prepared.request.key.id, failures, throttles, "asking again");
                    let wait =
                        after.unwrap_or_else(|| self.backoff.wait(&prepared.hash, failures + throttles));
                    if throttled || after.is_some() {
                        self.gate.close(wait);
                    }
                    tokio::select! {
                        _ = stopped.wait_for(|stop| *stop) => return Ok(None),
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// One attempt.
    async fn exchange(&self, prepared: &Prepared) -> Answered {
        let newer = self.newer_form.load(Ordering::Relaxed);
        let chat = Chat {
            model: &self.model,
            messages: &prepared.messages,
            temperature: (!newer).then_some(0.0),
            max_tokens: (!newer).then_some(MAX_REPLY_TOKENS),
            max_completion_tokens: newer.then_some(MAX_REPLY_TOKENS),
        };
        let lost = |error: reqwest::Error, usage| Answered::Again {
            give_up: State::Error,
            reason: describe(error),
            after: None,
            throttled: false,
            usage,
        };
        let response = match self.client.post(self.url.clone()).json(&chat).send().await {
            Ok(response) => response,
            Err(error) => return lost(error, None),
        };
        let (status, after) = (response.status(), retry_after(response.headers()));
        // Whatever comes of a 200 is paid for; without the endpoint's own count, an estimate stands in.
        let charged = Usage { prompt_tokens: prepared.estimated_prompt_tokens(), completion_tokens: 0 };
        let body = match response.bytes().await {
            Ok(body) => body,
            Err(error) => return lost(error, status.is_success().then_some(charged)),
        };
        if !status.is_success() {
            return failure(status.as_u16(), after, &body);
        }
        let mut answered = success(&body);
        if let Answered::Judged { usage, .. } | Answered::Again { usage, .. } = &mut answered {
            usage.get_or_insert(charged);
        }
        answered
    }

    fn judgement(&self, prepared: &Prepared, state: State, reason: &str, total: Usage) -> Judgement {
        Judgement {
            reason: Some(self.redact(reason)),
            request: prepared.hash.clone(),
            prompt_tokens: total.prompt_tokens,
            completion_tokens: total.completion_tokens,
            ..prepared.request.judgement(state)
        }
    }

    /// A server may echo the key.
    fn redact(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.as_str(), "***"),
            None => text.to_string(),
        }
    }
}

fn add(total: &mut Usage, usage: Option<Usage>) {
    let usage = usage.unwrap_or_default();
    total.prompt_tokens += usage.prompt_tokens;
    total.completion_tokens += usage.completion_tokens;
}

/// The error with its causes and without the URL, which may carry credentials.
fn describe(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
