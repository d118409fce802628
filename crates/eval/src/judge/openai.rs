//! Asks an OpenAI-compatible chat endpoint for verdicts.
//!
//! Requests run `max_concurrency` at a time, and every finished judgement goes to the [`Sink`] at once, so
//! that whoever keeps them asks nothing twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Request;
use super::backoff::Backoff;
use super::endpoint::{Endpoint, Prepared};
use super::prompt::Template;
use crate::error::EvalError;
use crate::judgement::{Journal, Judgement, State};

/// Judgements in a row that may end in `error` before the endpoint counts as down.
const DOWN_AFTER: usize = 20;
/// How often [`Sink::should_stop`] is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Takes finished judgements as they come, in no particular order.
pub trait Sink {
    /// Keeps one judgement; an error ends the judging.
    fn judged(&mut self, judgement: Judgement) -> Result<(), EvalError>;

    /// Whether to end early: replies under way are awaited, nothing new is asked.
    fn should_stop(&self) -> bool {
        false
    }
}

impl Sink for Journal {
    fn judged(&mut self, judgement: Judgement) -> Result<(), EvalError> {
        self.append(judgement)
    }
}

/// How the judging ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every request has a judgement, be it a failed one.
    Finished,
    /// [`Sink::should_stop`] said so.
    Interrupted,
}

/// A judge behind an endpoint.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Arc<Endpoint>,
    template: Template,
    config: spec::stage::Judge,
}

/// What is under way, and what it may cost.
struct Flight {
    tasks: JoinSet<(Prepared, Result<Option<Judgement>, EvalError>)>,
    reserved_usd: f64,
    spent_usd: f64,
    failures_in_a_row: usize,
}

impl OpenAi {
    /// Checks the configuration, the prompt and the key; opens no connection.
    ///
    /// `environment` looks up a variable (`|name| std::env::var(name).ok()`).
    pub fn new(
        config: &spec::stage::Judge,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EvalError> {
        if config.max_cost_usd > 0.0 && config.input_price <= 0.0 && config.output_price <= 0.0 {
            return Err(EvalError::CapWithoutPrices { cap_usd: config.max_cost_usd });
        }
        let variable = &config.api_key_env;
        let key = match variable.is_empty() {
            true => None,
            false => match environment(variable).map(|key| key.trim().to_string()) {
                Some(key) if !key.is_empty() => Some(key),
                _ => return Err(EvalError::MissingKey { variable: variable.clone() }),
            },
        };
        let template = Template::load(&config.prompt)?;
        Ok(Self { endpoint: Arc::new(Endpoint::new(config, key)?), template, config: config.clone() })
    }

    /// The same judge with other waits between attempts; tests use short ones.
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        if let Some(endpoint) = Arc::get_mut(&mut self.endpoint) {
            endpoint.backoff = backoff;
        }
        self
    }

    /// What `prompt_tokens` and `completion_tokens` cost by the configured prices, in USD.
    pub fn cost_usd(&self, prompt_tokens: u64, completion_tokens: u64) -> f64 {
        (prompt_tokens as f64 * self.config.input_price + completion_tokens as f64 * self.config.output_price)
            / 1e6
    }

    /// The requests that `journal` has no verdict for: never asked, failed, or asked with another prompt,
    /// model or endpoint.
    pub fn pending(&self, requests: &[Request], journal: &Journal) -> Result<Vec<Request>, EvalError> {
        let mut pending = Vec::new();
        for request in requests {
            let prepared = self.prepare(request)?;
            let judged = journal.get(&request.key).filter(|j| j.request == prepared.hash);
            if judged.is_none_or(|j| j.valid().is_none()) {
                pending.push(request.clone());
            }
        }
        Ok(pending)
    }

    /// Asks for a verdict on each of `pending`. Tokens of `journal`'s earlier judgements count towards the
    /// cost cap through `spent_usd`.
    ///
    /// Whatever ends it early, judgements under way are awaited and kept first.
    pub async fn judge(
        &self,
        pending: &[Request],
        spent_usd: f64,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, EvalError> {
        let mut flight = Flight { tasks: JoinSet::new(), reserved_usd: 0.0, spent_usd, failures_in_a_row: 0 };
        let (stop, stopped) = watch::channel(false);
        let mut next = 0;
        let mut end: Option<Result<Outcome, EvalError>> = None;
        loop {
            while end.is_none()
                && next < pending.len()
                && flight.tasks.len() < self.config.max_concurrency.max(1)
            {
                match self.prepare(&pending[next]) {
                    Ok(prepared) if self.affords(&prepared, &flight) => {
                        flight.reserved_usd += self.reserve(&prepared);
                        let (endpoint, stopped) = (self.endpoint.clone(), stopped.clone());
                        flight.tasks.spawn(async move {
                            let judgement = endpoint.ask(&prepared, stopped).await;
                            (prepared, judgement)
                        });
                        next += 1;
                    }
                    Ok(_) if flight.tasks.is_empty() => {
                        end = Some(Err(self.over_cap(&flight, next, pending.len())));
                    }
                    // What is under way may turn out cheaper than reserved.
                    Ok(_) => break,
                    Err(error) => end = Some(Err(error)),
                }
            }
            if end.is_none() && sink.should_stop() {
                end = Some(Ok(Outcome::Interrupted));
            }
            if end.is_some() {
                let _ = stop.send(true);
            }
            let Ok(joined) = tokio::time::timeout(POLL, flight.tasks.join_next()).await else { continue };
            match joined {
                Some(Ok(done)) => {
                    let landed = self.land(done, &mut flight, sink);
                    end = end.or(landed.err().map(Err));
                }
                // A task never panics by itself and is never aborted.
                Some(Err(e)) => end = end.or(Some(Err(EvalError::Client { message: e.to_string() }))),
                None => return end.unwrap_or(Ok(Outcome::Finished)),
            }
        }
    }

    /// [`OpenAi::judge`] for callers without an async runtime.
    pub fn judge_blocking(
        &self,
        pending: &[Request],
        spent_usd: f64,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, EvalError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| EvalError::Client { message: e.to_string() })?;
        runtime.block_on(self.judge(pending, spent_usd, sink))
    }

    /// Books one finished request and hands its judgement on.
    fn land(
        &self,
        (prepared, judgement): (Prepared, Result<Option<Judgement>, EvalError>),
        flight: &mut Flight,
        sink: &mut dyn Sink,
    ) -> Result<(), EvalError> {
        flight.reserved_usd -= self.reserve(&prepared);
        let Some(judgement) = judgement? else { return Ok(()) };
        flight.spent_usd += self.cost_usd(judgement.prompt_tokens, judgement.completion_tokens);
        let failed = judgement.state == State::Error;
        flight.failures_in_a_row = if failed { flight.failures_in_a_row + 1 } else { 0 };
        let message = judgement.reason.clone().unwrap_or_default();
        sink.judged(judgement)?;
        if flight.failures_in_a_row >= DOWN_AFTER {
            let base_url = self.endpoint.display_url();
            return Err(EvalError::Unreachable { base_url, failures: flight.failures_in_a_row, message });
        }
        Ok(())
    }

    fn prepare(&self, request: &Request) -> Result<Prepared, EvalError> {
        let messages = self.template.render(request)?;
        let hash = self.endpoint.hash(&messages);
        Ok(Prepared { request: request.clone(), messages, hash })
    }

    /// An upper estimate of what one attempt costs, in USD.
    fn reserve(&self, prepared: &Prepared) -> f64 {
        self.cost_usd(prepared.estimated_prompt_tokens(), super::endpoint::MAX_REPLY_TOKENS)
    }

    fn affords(&self, prepared: &Prepared, flight: &Flight) -> bool {
        let cap = self.config.max_cost_usd;
        cap <= 0.0 || flight.spent_usd + flight.reserved_usd + self.reserve(prepared) <= cap
    }

    fn over_cap(&self, flight: &Flight, judged: usize, of: usize) -> EvalError {
        EvalError::CostCap {
            spent_usd: flight.spent_usd,
            cap_usd: self.config.max_cost_usd,
            judged,
            remaining: of - judged,
        }
    }
}
