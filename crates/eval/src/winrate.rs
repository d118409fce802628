//! Expected win rates from judgements.
//!
//! A prompt's comparison of two models is worth 1, ½ or 0 points; judged in both orders, agreement decides
//! and disagreement is ½ (reference: "Judged win rate" of the method). A pair's win rate is the mean over
//! prompts, a model's the mean over its opponents, so that the mean over models is 50 by construction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::answers::AnswerRow;
use crate::bootstrap;
use crate::error::EvalError;
use crate::judge::Request;
use crate::judgement::{Judgement, Key, Order, State, Verdict};
use crate::summary::{Interval, JudgeSummary, PairSummary};

/// Who is compared on what: all pairs of models × all prompts × the orders.
#[derive(Debug, Clone, PartialEq)]
pub struct Tournament {
    models: Vec<String>,
    ids: Vec<String>,
    orders: Vec<Order>,
}

impl Tournament {
    /// All pairs of `models` on the prompts of `rows`. A judge that is shown text needs both `orders`; one
    /// that scores each answer by itself needs only [`Order::Ab`].
    pub fn new(rows: &[AnswerRow], models: &[String], orders: &[Order]) -> Result<Self, EvalError> {
        if models.len() < 2 || rows.is_empty() {
            let message = format!("{} models and {} prompts", models.len(), rows.len());
            return Err(EvalError::NothingToCompare { message });
        }
        let lacks = |row: &&AnswerRow| models.iter().any(|model| !row.answers.contains_key(model));
        let missing: Vec<String> = rows.iter().filter(lacks).map(|row| row.id.clone()).collect();
        if !missing.is_empty() {
            let what = format!("answers of {}", models.join(", "));
            return Err(EvalError::IdMismatch { what, missing, unexpected: Vec::new() });
        }
        let ids = rows.iter().map(|row| row.id.clone()).collect();
        Ok(Self { models: models.to_vec(), ids, orders: orders.to_vec() })
    }

    pub fn models(&self) -> &[String] {
        &self.models
    }

    /// Every pair of models, in their order.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        let later =
            |i: usize| self.models[i + 1..].iter().map(move |b| (self.models[i].as_str(), b.as_str()));
        (0..self.models.len()).flat_map(later).collect()
    }

    /// Every judgement there should be.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        for id in &self.ids {
            for (a, b) in self.pairs() {
                for &order in &self.orders {
                    keys.push(Key { id: id.clone(), model_a: a.into(), model_b: b.into(), order });
                }
            }
        }
        keys
    }

    /// Every judgement as a request with its texts; `rows` are those of [`Tournament::new`].
    pub fn requests(&self, rows: &[AnswerRow]) -> Vec<Request> {
        let rows: HashMap<&str, &AnswerRow> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let request = |key: Key| {
            let row = rows.get(key.id.as_str())?;
            let text = |model: &str| row.answers.get(model).map(|answer| answer.text.clone());
            let (answer_a, answer_b) = (text(&key.model_a)?, text(&key.model_b)?);
            Some(Request { prompt: row.prompt.clone(), answer_a, answer_b, key })
        };
        self.keys().into_iter().filter_map(request).collect()
    }

    /// Win rates with bootstrap intervals over prompts. Below `min_coverage` there are none, only counts.
    ///
    /// `provider` and `judge` are written into the summary as they are. A judgement that the tournament
    /// does not ask for is an error that lists the ids.
    pub fn summarise(
        &self,
        judgements: &[Judgement],
        provider: &str,
        judge: &str,
        min_coverage: f64,
        seed: u64,
    ) -> Result<JudgeSummary, EvalError> {
        let by_key = self.join(judgements)?;
        let table = self.points(&by_key);
        let comparisons = self.ids.len() * self.pairs().len();
        let valid = table.iter().flatten().flatten().count();
        let coverage = valid as f64 / comparisons as f64;
        let headline = valid > 0 && coverage >= min_coverage;
        let mut intervals = headline.then(|| self.intervals(&table, seed));
        let pair_intervals = intervals.as_mut().map(|all| all.split_off(self.models.len()));
        let (agreement_between_orders, first_shown_share) = self.order_effects(&by_key);
        Ok(JudgeSummary {
            provider: provider.into(),
            judge: judge.into(),
            models: self.models.clone(),
            states: self.states(&by_key),
            comparisons,
            coverage,
            min_coverage,
            agreement_between_orders,
            first_shown_share,
            win_rate: intervals.map(|all| self.models.iter().cloned().zip(all).collect()),
            pairs: self.pair_summaries(&table, pair_intervals.as_deref()),
            prompt_tokens: judgements.iter().map(|j| j.prompt_tokens).sum(),
            completion_tokens: judgements.iter().map(|j| j.completion_tokens).sum(),
        })
    }

    fn join<'a>(&self, judgements: &'a [Judgement]) -> Result<BTreeMap<Key, &'a Judgement>, EvalError> {
        let wanted: BTreeSet<Key> = self.keys().into_iter().collect();
        let mut by_key = BTreeMap::new();
        let (mut unexpected, mut twice) = (Vec::new(), Vec::new());
        for judgement in judgements {
            let key = judgement.key();
            if !wanted.contains(&key) {
                unexpected.push(key.id);
            } else if by_key.insert(key, judgement).is_some() {
                twice.push(judgement.id.clone());
            }
        }
        if !unexpected.is_empty() {
            return Err(EvalError::IdMismatch { what: "judgements".into(), missing: Vec::new(), unexpected });
        }
        if !twice.is_empty() {
            return Err(EvalError::DuplicateIds { what: "judgements".into(), ids: twice });
        }
        Ok(by_key)
    }

    /// The verdict in each order, `None` where there is no valid one.
    fn verdicts(
        &self,
        by_key: &BTreeMap<Key, &Judgement>,
        id: &str,
        a: &str,
        b: &str,
    ) -> Vec<Option<Verdict>> {
        let key = |order| Key { id: id.into(), model_a: a.into(), model_b: b.into(), order };
        self.orders.iter().map(|&order| by_key.get(&key(order))?.valid()).collect()
    }

    /// Points of the pair's first model: [prompt][pair]; `None` unless every order has a valid verdict.
    fn points(&self, by_key: &BTreeMap<Key, &Judgement>) -> Vec<Vec<Option<f64>>> {
        let pairs = self.pairs();
        let row =
            |id: &String| pairs.iter().map(|(a, b)| combine(&self.verdicts(by_key, id, a, b))).collect();
        self.ids.iter().map(row).collect()
    }

    /// Intervals in percent: first of each model, then of each pair.
    fn intervals(&self, table: &[Vec<Option<f64>>], seed: u64) -> Vec<Interval> {
        let pairs = self.pairs();
        let index: HashMap<&str, usize> =
            self.models.iter().enumerate().map(|(at, model)| (model.as_str(), at)).collect();
        let mut intervals = bootstrap::percentile(table.len(), seed, "win rate", |drawn| {
            let mut models = vec![0.0; self.models.len()];
            let mut rates = Vec::with_capacity(pairs.len());
            for (pair, (a, b)) in pairs.iter().enumerate() {
                let (mut sum, mut count) = (0.0, 0.0);
                for points in drawn.iter().filter_map(|&prompt| table[prompt][pair]) {
                    sum += points;
                    count += 1.0;
                }
                // A resample without this pair says nothing about it: even.
                let rate = if count > 0.0 { 100.0 * sum / count } else { 50.0 };
                models[index[a]] += rate;
                models[index[b]] += 100.0 - rate;
                rates.push(rate);
            }
            let opponents = (self.models.len() - 1) as f64;
            models.iter().map(|sum| sum / opponents).chain(rates).collect()
        });
        for (pair, interval) in intervals[self.models.len()..].iter_mut().enumerate() {
            interval.n = table.iter().filter(|row| row[pair].is_some()).count();
        }
        intervals
    }

    fn pair_summaries(&self, table: &[Vec<Option<f64>>], rates: Option<&[Interval]>) -> Vec<PairSummary> {
        let summary = |(pair, (a, b)): (usize, (&str, &str))| {
            let count = |points: Option<f64>| table.iter().filter(|row| row[pair] == points).count();
            PairSummary {
                model_a: a.into(),
                model_b: b.into(),
                win_rate: rates.map(|all| all[pair]),
                wins: count(Some(1.0)),
                ties: count(Some(0.5)),
                losses: count(Some(0.0)),
                invalid: count(None),
            }
        };
        self.pairs().into_iter().enumerate().map(summary).collect()
    }

    fn states(&self, by_key: &BTreeMap<Key, &Judgement>) -> BTreeMap<String, usize> {
        let mut states: BTreeMap<String, usize> =
            [State::Ok, State::Unparsable, State::Refused, State::Error]
                .map(|state| (state.name().to_string(), 0))
                .into();
        by_key.values().for_each(|j| *states.entry(j.state.name().into()).or_default() += 1);
        states.insert("missing".into(), self.keys().len() - by_key.len());
        states
    }

    /// Agreement between orders, and the share of non-tie verdicts for the answer shown first.
    fn order_effects(&self, by_key: &BTreeMap<Key, &Judgement>) -> (Option<f64>, Option<f64>) {
        if self.orders.len() < 2 {
            return (None, None);
        }
        let (mut agree, mut both, mut first, mut decided) = (0, 0, 0, 0);
        for id in &self.ids {
            for (a, b) in self.pairs() {
                let verdicts = self.verdicts(by_key, id, a, b);
                for (verdict, &order) in verdicts.iter().zip(&self.orders) {
                    let Some(verdict) = verdict.filter(|&v| v != Verdict::Tie) else { continue };
                    decided += 1;
                    first += usize::from(verdict.unswapped(order) == Verdict::A);
                }
                if verdicts.iter().all(Option::is_some) {
                    both += 1;
                    agree += usize::from(verdicts.iter().all(|v| *v == verdicts[0]));
                }
            }
        }
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        (share(agree, both), share(first, decided))
    }
}

impl JudgeSummary {
    /// Refuses a result without a headline number, so that a judge that was down never looks like a tie
    /// (a103, a113).
    pub fn require_coverage(&self) -> Result<(), EvalError> {
        if self.win_rate.is_some() {
            return Ok(());
        }
        let states = self.states.iter().filter(|(_, count)| **count > 0);
        Err(EvalError::Coverage {
            coverage: self.coverage,
            min_coverage: self.min_coverage,
            expected: self.comparisons,
            states: states.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Agreement decides, disagreement is ½, anything invalid is nothing.
fn combine(verdicts: &[Option<Verdict>]) -> Option<f64> {
    let verdicts: Option<Vec<Verdict>> = verdicts.iter().copied().collect();
    let verdicts = verdicts.filter(|all| !all.is_empty())?;
    let agreed = verdicts.iter().all(|verdict| *verdict == verdicts[0]);
    Some(if agreed { verdicts[0].points() } else { Verdict::Tie.points() })
}
