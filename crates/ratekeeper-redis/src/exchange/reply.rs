//! What a script answers, and the decision that the engine makes of it.

use std::iter::repeat_n;

use ratekeeper::algorithm::{AnyView, View, composite};
use ratekeeper::state::{RuleStates, binary};
use ratekeeper::{Charged, Cost, Decision, Nanos, State, StoreError, Timestamp};
use redis::Value;

use super::forgotten::read_forgotten;
use super::group::RuleGroup;
use crate::encoding::Encoding;
use crate::error::{RedisError, unreadable};
use crate::script::ScriptVerb;

/// The answer of a script.
#[derive(Debug)]
pub(crate) enum ScriptReply {
    /// It has decided, and reports on which states and at what time.
    Decided(ScriptDecision),
    /// It could not read the state of this group, and has changed nothing.
    Unread { group: usize, found: Value },
    /// The server's time, which lies in none of the windows that were sent along. It has changed nothing.
    OtherWindow(Timestamp),
}

/// The states that a script has decided on, as they were before, and the time of the decision.
#[derive(Debug)]
pub(crate) struct ScriptDecision {
    passed: bool,
    now: Timestamp,
    states: Vec<Option<State>>,
    /// How much was granted of a cost that may be granted in part.
    granted: u64,
    /// For each group, whether it was reset after the charge that is to be given back.
    resets: Vec<bool>,
    /// How many live states of other quotas were forgotten along with those of the request.
    others: u64,
}

impl ScriptReply {
    /// Reads the answer to a call about these groups.
    pub(crate) fn read(value: Value, verb: ScriptVerb, groups: &[RuleGroup<'_>]) -> Result<Self, StoreError> {
        let Value::Array(items) = value else { return Err(expected("an array")) };
        let mut items = items.into_iter();
        let Some(Value::Int(outcome)) = items.next() else { return Err(expected("an outcome")) };
        let now = match items.next() {
            Some(Value::Int(micros)) => micros.checked_mul(1_000),
            Some(nanos) => i64::try_from(number(&nanos)?).ok(),
            None => None,
        };
        let now = Timestamp::from_nanos(now.ok_or_else(|| expected("the time of the decision"))?);
        match outcome {
            2 => {
                let (Some(Value::Int(group)), Some(found)) = (items.next(), items.next()) else {
                    return Err(expected("the number of a key and what is under it"));
                };
                let group = usize::try_from(group - 1).ok().filter(|group| *group < groups.len());
                Ok(ScriptReply::Unread {
                    group: group.ok_or_else(|| expected("the number of one of the keys"))?,
                    found,
                })
            }
            3 => Ok(ScriptReply::OtherWindow(now)),
            outcome => {
                let (mut states, mut others) = (Vec::with_capacity(groups.len()), 0);
                for group in groups {
                    match items.next() {
                        Some(Value::Nil) => states.extend(group.rules.iter().map(|_| None)),
                        Some(found) if verb == ScriptVerb::Forget => {
                            others += read_forgotten(group, &found, now, &mut states);
                        }
                        Some(Value::BulkString(report)) => read_states(group, &report, &mut states)?,
                        _ => return Err(expected("the states under each key")),
                    }
                }
                let (mut granted, mut resets) = (0, Vec::new());
                match (verb, items.next()) {
                    (ScriptVerb::AcquireUpTo, Some(granted_cost)) => granted = number(&granted_cost)?,
                    (ScriptVerb::Refund, Some(Value::BulkString(digits))) => {
                        resets = digits.iter().map(|digit| *digit == b'1').collect();
                    }
                    (ScriptVerb::Refund, _) => return Err(expected("whether each key was reset")),
                    _ => {}
                }
                let passed = outcome == 1;
                Ok(ScriptReply::Decided(ScriptDecision { passed, now, states, granted, resets, others }))
            }
        }
    }
}

impl ScriptDecision {
    /// Returns what the engine decides on the same states at the same time. The script has already charged, or not: should
    /// the two ever disagree, that is an error and not a decision.
    pub(crate) fn acquire(&self, groups: &[RuleGroup<'_>], cost: Cost) -> Result<Decision, StoreError> {
        let decision = composite::take_all(&mut in_order(groups, self.views(groups)?), cost);
        // What costs nothing always passes, and the script is not asked.
        if cost == Cost::ZERO {
            return Ok(decision);
        }
        if decision.allowed != self.passed {
            return Err(RedisError::script_fault("the script and the engine disagree about a request").into());
        }
        Ok(decision.taken(cost, self.now))
    }

    /// Returns how much was granted, and the decision about that much.
    pub(crate) fn acquire_up_to(
        &self,
        groups: &[RuleGroup<'_>],
        up_to: Cost,
    ) -> Result<(Cost, Decision), StoreError> {
        let cost = Cost::new(up_to.get().min(self.granted.max(1)));
        let decision = self.acquire(groups, cost)?;
        Ok((if decision.allowed { cost } else { Cost::ZERO }, decision))
    }

    /// Returns what would be decided.
    pub(crate) fn peek(&self, groups: &[RuleGroup<'_>], cost: Cost) -> Result<Decision, StoreError> {
        Ok(composite::look_all(&in_order(groups, self.views(groups)?), cost))
    }

    /// Returns what is left once the cost is given back.
    pub(crate) fn refund(
        &self,
        groups: &[RuleGroup<'_>],
        cost: Cost,
        charged: Charged,
    ) -> Result<Decision, StoreError> {
        let (mut views, charged_at) = (self.views(groups)?, charged.instant(self.now));
        let of_place = |(group, is_reset): (&RuleGroup<'_>, &bool)| repeat_n(*is_reset, group.rules.len());
        let resets = groups.iter().zip(&self.resets).flat_map(of_place);
        for (view, is_reset) in views.iter_mut().zip(resets) {
            if !is_reset && cost != Cost::ZERO {
                view.refund(cost, charged_at);
            }
        }
        Ok(composite::look_all(&in_order(groups, views), Cost::ZERO))
    }

    /// Returns how many states were live: differed from those of a fresh key.
    pub(crate) fn live(&self, groups: &[RuleGroup<'_>]) -> Result<u64, StoreError> {
        let views = self.views(groups)?;
        Ok(self.others + views.iter().filter(|view| view.reset_after() > Nanos::ZERO).count() as u64)
    }

    /// Returns the views of all rules, in the order of the script.
    fn views<'v>(&'v self, groups: &[RuleGroup<'v>]) -> Result<Vec<AnyView<'v>>, StoreError> {
        let rules = groups.iter().flat_map(|group| group.rules.iter().map(|rule| (group.tenancy(), rule)));
        let views = rules.zip(&self.states).map(|((tenancy, rule), state)| {
            AnyView::at(rule.quota, state.as_ref(), self.now, tenancy).map_err(|error| unreadable(&error))
        });
        views.collect()
    }
}

/// Returns views in the order of the request: which rule binds is told by its position there.
fn in_order<'v>(groups: &[RuleGroup<'_>], views: Vec<AnyView<'v>>) -> Vec<AnyView<'v>> {
    if groups.is_sorted_by_key(|group| group.place) {
        return views;
    }
    let places = groups.iter().flat_map(|group| repeat_n(group.place, group.rules.len()));
    let mut placed: Vec<_> = places.zip(views).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, view)| view).collect()
}

/// Reads the states of a group from the script's report: the text of a string, or the contents of a hash's fields.
fn read_states(
    group: &RuleGroup<'_>,
    report: &[u8],
    states: &mut Vec<Option<State>>,
) -> Result<(), StoreError> {
    match group.encoding {
        Encoding::Ascii => {
            let read = RuleStates::read(report, group.named(), group.tenancy());
            states.extend(read.map_err(|error| unreadable(&error))?.states);
        }
        Encoding::Binary => {
            let rule = group.first_rule()?;
            let (names, mut rest) = (rule.kind.fields(), report);
            let mut fields = vec![("v", binary::VERSION)];
            for (index, field) in names.iter().enumerate() {
                // The last takes what is left: the entries of a log are as long as they are.
                let size = if index + 1 == names.len() { rest.len() } else { rest.len().min(8) };
                let (content, after) = rest.split_at(size);
                fields.push((field.name, content));
                rest = after;
            }
            match binary::decode(&fields).map_err(|error| unreadable(&error))? {
                binary::Decoded::State(state) => states.push(Some(state)),
                binary::Decoded::OtherVersion { .. } => {
                    return Err(expected("a state of this schema version"));
                }
            }
        }
    }
    Ok(())
}

fn number(value: &Value) -> Result<u64, StoreError> {
    let text = match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or_else(|| expected("a number"))
}

fn expected(what: &str) -> StoreError {
    RedisError::unparsed("the script", what).into()
}
