//! What the script answers.

use std::iter::repeat_n;

use ratekeeper::algorithm::{AnyView, View, composite};
use ratekeeper::state::{RuleStates, binary};
use ratekeeper::{Charged, Cost, Decision, Nanos, State, StoreError, StoreErrorKind, Timestamp};
use redis::Value;

use crate::encoding::Encoding;
use crate::error::{RedisError, RedisErrorKind};
use crate::forgotten;
use crate::library::Kind;
use crate::place::Place;
use crate::question::Verb;

/// What the script answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It decided on these states at this time.
    Decided(Decided),
    /// The state at a place was not understood.
    Unread { place: usize, found: Value },
    /// The server's time lies in none of the windows that were sent.
    OtherWindow(Timestamp),
    /// The script for usual requests leaves it to the one for all.
    Unusual,
}

/// The states of all rules before a decision, and the time of it.
#[derive(Debug)]
pub(crate) struct Decided {
    passed: bool,
    now: Timestamp,
    states: Vec<Option<State>>,
    /// How much of a cost was granted that need not be granted as a whole.
    granted: u64,
    /// For each place, whether it was reset since the charge that is given back.
    resets: Vec<bool>,
    /// How many states were forgotten with the one that the request is about.
    others: u64,
}

impl Reply {
    /// Reads an answer about these places.
    pub(crate) fn read(value: Value, verb: Verb, places: &[Place<'_>]) -> Result<Self, StoreError> {
        let Value::Array(items) = value else { return Err(odd("no list")) };
        let mut items = items.into_iter();
        let Some(Value::Int(outcome)) = items.next() else { return Err(odd("no outcome")) };
        if outcome == 4 {
            return Ok(Reply::Unusual);
        }
        let now = match items.next() {
            Some(Value::Int(micros)) => micros.checked_mul(1_000),
            Some(nanos) => i64::try_from(number(&nanos)?).ok(),
            None => None,
        };
        let now = Timestamp::from_nanos(now.ok_or_else(|| odd("no time"))?);
        match outcome {
            2 => {
                let (Some(Value::Int(place)), Some(found)) = (items.next(), items.next()) else {
                    return Err(odd("an unread state without a place"));
                };
                let place = usize::try_from(place - 1).ok().filter(|place| *place < places.len());
                Ok(Reply::Unread { place: place.ok_or_else(|| odd("no such place"))?, found })
            }
            3 => Ok(Reply::OtherWindow(now)),
            outcome => {
                let (mut states, mut others) = (Vec::with_capacity(places.len()), 0);
                for place in places {
                    match items.next() {
                        Some(Value::Nil) => states.extend(place.rules.iter().map(|_| None)),
                        Some(found) if verb == Verb::Forget => {
                            others += forgotten::read(place, &found, now, &mut states);
                        }
                        Some(Value::BulkString(told)) => read_states(place, &told, &mut states)?,
                        _ => return Err(odd("a state is missing")),
                    }
                }
                let (mut granted, mut resets) = (0, Vec::new());
                match (verb, items.next()) {
                    (Verb::AcquireUpTo, Some(told)) => granted = number(&told)?,
                    (Verb::Refund(_), Some(Value::BulkString(told))) => {
                        resets = told.iter().map(|digit| *digit == b'1').collect();
                    }
                    (Verb::Refund(_), _) => return Err(odd("no word of resets")),
                    _ => {}
                }
                let passed = outcome == 1;
                Ok(Reply::Decided(Decided { passed, now, states, granted, resets, others }))
            }
        }
    }
}

impl Decided {
    /// What the engine decides on the same states at the same time. The script has charged, or not, already: should
    /// the two ever disagree, that is an error and no decision.
    pub(crate) fn acquire(&self, places: &[Place<'_>], cost: Cost) -> Result<Decision, StoreError> {
        let decision = composite::take_all(&mut self.views(places)?, cost);
        // What costs nothing always passes, and the script is not asked.
        if cost == Cost::PEEK {
            return Ok(decision);
        }
        if decision.allowed != self.passed {
            return Err(odd("script and engine disagree"));
        }
        Ok(decision.taken(cost, self.now))
    }

    /// How much was granted, and the decision for it.
    pub(crate) fn acquire_up_to(
        &self,
        places: &[Place<'_>],
        up_to: Cost,
    ) -> Result<(Cost, Decision), StoreError> {
        let cost = crate::question::partial(up_to, self.granted);
        let decision = self.acquire(places, cost)?;
        Ok((if decision.allowed { cost } else { Cost::PEEK }, decision))
    }

    /// What would be decided.
    pub(crate) fn peek(&self, places: &[Place<'_>], cost: Cost) -> Result<Decision, StoreError> {
        Ok(composite::look_all(&self.views(places)?, cost))
    }

    /// What is left when the cost is given back.
    pub(crate) fn refund(
        &self,
        places: &[Place<'_>],
        cost: Cost,
        charged: Charged,
    ) -> Result<Decision, StoreError> {
        let (mut views, charged_at) = (self.views(places)?, charged.instant(self.now));
        let of_place = |(place, is_reset): (&Place<'_>, &bool)| repeat_n(*is_reset, place.rules.len());
        let resets = places.iter().zip(&self.resets).flat_map(of_place);
        for (view, is_reset) in views.iter_mut().zip(resets) {
            if !is_reset && cost != Cost::PEEK {
                view.refund(cost, charged_at);
            }
        }
        Ok(composite::look_all(&views, Cost::PEEK))
    }

    /// How many of the states were more than a fresh key's.
    pub(crate) fn live(&self, places: &[Place<'_>]) -> Result<u64, StoreError> {
        let views = self.views(places)?;
        Ok(self.others + views.iter().filter(|view| view.reset_after() > Nanos::ZERO).count() as u64)
    }

    fn views<'v>(&'v self, places: &[Place<'v>]) -> Result<Vec<AnyView<'v>>, StoreError> {
        let rules = places.iter().flat_map(|place| place.rules.iter().map(|rule| (place.tenancy(), rule)));
        let views = rules.zip(&self.states).map(|((tenancy, rule), state)| {
            AnyView::at(rule.quota, state.as_ref(), self.now, tenancy).map_err(|error| unreadable(&error))
        });
        views.collect()
    }
}

/// The states that a place's answer is about: the text of a string, or the contents of a hash's fields.
fn read_states(place: &Place<'_>, told: &[u8], states: &mut Vec<Option<State>>) -> Result<(), StoreError> {
    match place.encoding {
        Encoding::Ascii => {
            let read = RuleStates::read(told, place.named(), place.tenancy());
            states.extend(read.map_err(|error| unreadable(&error))?.states);
        }
        Encoding::Binary => {
            let rule = place.rules.first().ok_or_else(|| odd("a place without a rule"))?;
            let (names, mut rest) = (field_names(rule.kind), told);
            let mut fields = vec![("v", binary::VERSION)];
            for (index, name) in names.iter().enumerate() {
                // The last takes what is left: the entries of a log are as long as they are.
                let size = if index + 1 == names.len() { rest.len() } else { rest.len().min(8) };
                let (content, after) = rest.split_at(size);
                fields.push((name, content));
                rest = after;
            }
            match binary::decode(&fields).map_err(|error| unreadable(&error))? {
                binary::Decoded::State(state) => states.push(Some(state)),
                binary::Decoded::OtherVersion { .. } => return Err(odd("a version that was not read")),
            }
        }
    }
    Ok(())
}

/// The fields that the script tells of, in its order.
fn field_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Gcra => &["tat"],
        Kind::TokenBucket => &["t", "ts"],
        Kind::LeakyBucket => &["l", "ts"],
        Kind::Window | Kind::Grid | Kind::Edges => &["c", "s"],
        Kind::SlidingWindow => &["p", "c", "s"],
        Kind::SlidingLog => &["n", "e"],
    }
}

fn number(value: &Value) -> Result<u64, StoreError> {
    let text = match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or_else(|| odd("no number"))
}

/// The state cannot be what the rules say it is.
pub(crate) fn unreadable(error: &(impl std::error::Error + Clone + Send + Sync + 'static)) -> StoreError {
    let message = format!("{error}; delete the key, or set the policy `reset`");
    StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error.clone())
}

/// The answer is none that the script gives.
pub(crate) fn odd(what: &str) -> StoreError {
    let message = format!("the script's answer is not understood: {what}; is this a Redis or Valkey server?");
    RedisError::new(RedisErrorKind::Protocol, message).into()
}
