//! What a script answers, and the decision that the engine makes of it.

use std::borrow::Borrow;
use std::iter::repeat_n;

use ratekeeper::algorithm::composite::{self, Asked};
use ratekeeper::algorithm::{AnyView, View, look};
use ratekeeper::port::{Grant, Standing};
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
    /// The hold is another than who asked thinks; its record. Nothing has changed.
    OtherHold(Vec<u8>),
    /// The hold has ended before; its record, and the states of now. Nothing has changed.
    EndedHold(ScriptDecision, Vec<u8>),
    /// There is a hold of this id already. Nothing has changed.
    KnownHold,
    /// There is no such hold. Nothing has changed.
    NoHold,
    /// First something that has lapsed is to be given back. Nothing has changed.
    Lapsed,
}

/// The states that a script has decided on, as they were before, and the time of the decision.
#[derive(Debug)]
pub(crate) struct ScriptDecision {
    pub(super) passed: bool,
    pub(super) now: Timestamp,
    pub(super) states: Vec<Option<State>>,
    /// How much was granted of a cost that may be granted in part.
    granted: u64,
    /// Of charges that are judged together a bit for each that is over.
    pub(super) over: u64,
    /// For each group, whether it was reset after the charge that is to be given back.
    resets: Vec<bool>,
    /// How many live states of other quotas were forgotten along with those of the request.
    others: u64,
    /// What is told about holds.
    pub(super) held: Vec<Value>,
}

impl ScriptReply {
    /// Reads the answer to a call about these groups.
    pub(crate) fn read<'g>(
        value: Value,
        verb: ScriptVerb,
        groups: &[impl Borrow<RuleGroup<'g>>],
    ) -> Result<Self, StoreError> {
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
                let group = group.checked_sub(1).and_then(|group| usize::try_from(group).ok());
                let group = group.filter(|group| *group < groups.len());
                Ok(ScriptReply::Unread {
                    group: group.ok_or_else(|| expected("the number of one of the keys"))?,
                    found,
                })
            }
            3 => Ok(ScriptReply::OtherWindow(now)),
            4 => match items.next() {
                Some(Value::BulkString(record)) => Ok(ScriptReply::OtherHold(record)),
                _ => Err(expected("the record of a hold")),
            },
            6 => Ok(ScriptReply::KnownHold),
            7 => Ok(ScriptReply::NoHold),
            8 => Ok(ScriptReply::Lapsed),
            outcome => {
                let (mut states, mut others) = (Vec::with_capacity(groups.len()), 0);
                for group in groups.iter().map(Borrow::borrow) {
                    match items.next() {
                        Some(Value::Nil) => states.extend(group.rules.iter().map(|_| None)),
                        Some(found) if verb == ScriptVerb::Forget => {
                            others += read_forgotten(group, &found, now, &mut states);
                        }
                        Some(Value::BulkString(report)) => read_states(group, &report, &mut states)?,
                        _ => return Err(expected("the states under each key")),
                    }
                }
                let (mut granted, mut over, mut resets, mut held) = (0, 0, Vec::new(), Vec::new());
                match (verb, items.next()) {
                    (verb, Some(sums)) if verb.is_held() => held = [sums].into_iter().chain(items).collect(),
                    (ScriptVerb::AcquireUpTo, Some(granted_cost)) => granted = number(&granted_cost)?,
                    (ScriptVerb::Judge, Some(Value::Int(bits))) => over = bits.cast_unsigned(),
                    (ScriptVerb::Judge, _) => return Err(expected("which charges are over")),
                    (ScriptVerb::Refund, Some(Value::BulkString(digits))) => {
                        resets = digits.iter().map(|digit| *digit == b'1').collect();
                    }
                    (ScriptVerb::Refund, _) => return Err(expected("whether each key was reset")),
                    _ => {}
                }
                let passed = outcome == 1;
                let record = match (outcome, held.get(1)) {
                    (5, Some(Value::BulkString(record))) => Some(record.clone()),
                    (5, _) => return Err(expected("the record of a hold")),
                    _ => None,
                };
                let decision = ScriptDecision { passed, now, states, granted, over, resets, others, held };
                Ok(match record {
                    Some(record) => ScriptReply::EndedHold(decision, record),
                    None => ScriptReply::Decided(decision),
                })
            }
        }
    }
}

impl ScriptDecision {
    /// Returns what was told when a hold was ended.
    pub(super) fn told(
        groups: &[RuleGroup<'_>],
        now: Timestamp,
        told: &[Option<&[u8]>],
        held: Vec<Value>,
    ) -> Result<Self, StoreError> {
        let mut states = Vec::with_capacity(groups.len());
        for (group, report) in groups.iter().zip(told) {
            match report {
                Some(report) => read_states(group, report, &mut states)?,
                None => states.extend(group.rules.iter().map(|_| None)),
            }
        }
        let (granted, over, resets, others) = (0, 0, Vec::new(), 0);
        Ok(ScriptDecision { passed: true, now, states, granted, over, resets, others, held })
    }

    /// Returns what the engine decides on the same states at the same time. The script has already charged, or not: should
    /// the two ever disagree, that is an error and not a decision.
    pub(crate) fn acquire(&self, groups: &[RuleGroup<'_>]) -> Result<Standing, StoreError> {
        let (mut views, asked) = in_order(groups, self.views(groups)?);
        self.take(&mut views, &asked)
    }

    /// Returns how much was granted, the decision on that, or on the least if it was refused, and what comes after.
    pub(crate) fn acquire_up_to(
        &self,
        groups: &mut [RuleGroup<'_>],
        least: Cost,
    ) -> Result<Grant, StoreError> {
        let cost = if self.passed { Cost::new(self.granted) } else { least };
        groups.iter_mut().flat_map(|group| &mut group.rules).for_each(|rule| rule.asked.cost = cost);
        let (mut views, asked) = in_order(groups, self.views(groups)?);
        let decision = self.take(&mut views, &asked)?.decision;
        let binding = views.into_iter().zip(&asked).map(|(view, asked)| (view, asked.shadow_of.is_none()));
        let (ends, next) = composite::outlook(binding);
        let granted = if decision.allowed { cost } else { Cost::ZERO };
        Ok(Grant { granted, decision, at: self.now, ends, next })
    }

    /// Takes from views what is asked of them, as the script has, or has not.
    fn take(&self, views: &mut [AnyView<'_>], asked: &[Asked]) -> Result<Standing, StoreError> {
        let (each, passing) = composite::take_each(views, |rule| asked[rule]);
        let mut standing = standing(each, asked);
        // What costs nothing always passes, and the script is not asked.
        if asked.iter().all(|asked| asked.cost == Cost::ZERO) {
            return Ok(standing);
        }
        if passing.allows() != self.passed {
            return Err(RedisError::script_fault("the script and the engine disagree about a request").into());
        }
        if passing.allows() {
            standing.decision = standing.decision.charged(self.now);
        }
        Ok(standing)
    }

    /// Returns what would be decided.
    pub(crate) fn peek(&self, groups: &[RuleGroup<'_>]) -> Result<Standing, StoreError> {
        let (views, asked) = in_order(groups, self.views(groups)?);
        let each = views.iter().zip(&asked).map(|(view, asked)| look(view, asked.cost));
        Ok(standing(each.collect(), &asked))
    }

    /// Returns where the key stands once all is charged, as one more would find it.
    pub(crate) fn debit(&self, groups: &[RuleGroup<'_>]) -> Result<Standing, StoreError> {
        let (mut views, asked) = in_order(groups, self.views(groups)?);
        let mut forgiven = 0_u64;
        for (view, asked) in views.iter_mut().zip(&asked).filter(|(_, asked)| asked.cost != Cost::ZERO) {
            forgiven = forgiven.saturating_add(view.debit(asked.cost));
        }
        let each = views.iter().map(|view| look(view, Cost::ONE)).collect();
        Ok(Standing { forgiven, ..standing(each, &asked) })
    }

    /// Returns what is left once all is given back.
    pub(crate) fn refund(&self, groups: &[RuleGroup<'_>], charged: Charged) -> Result<Decision, StoreError> {
        let (mut views, charged_at) = (self.views(groups)?, charged.instant(self.now));
        let of_place = |(group, is_reset): (&RuleGroup<'_>, &bool)| repeat_n(*is_reset, group.rules.len());
        let resets = groups.iter().zip(&self.resets).flat_map(of_place);
        let asked = groups.iter().flat_map(|group| &group.rules).map(|rule| rule.asked.cost);
        for ((view, is_reset), cost) in views.iter_mut().zip(resets).zip(asked) {
            if !is_reset && cost != Cost::ZERO {
                view.refund(cost, charged_at);
            }
        }
        let (views, asked) = in_order(groups, views);
        Ok(standing(views.iter().map(|view| look(view, Cost::ZERO)).collect(), &asked).decision)
    }

    /// Returns how many states were live: differed from those of a fresh key.
    pub(crate) fn live(&self, groups: &[RuleGroup<'_>]) -> Result<u64, StoreError> {
        let views = self.views(groups)?;
        Ok(self.others + views.iter().filter(|view| view.reset_after() > Nanos::ZERO).count() as u64)
    }

    /// Returns the views of all rules, in the order of the script.
    pub(super) fn views<'v>(&'v self, groups: &[RuleGroup<'v>]) -> Result<Vec<AnyView<'v>>, StoreError> {
        let rules = groups.iter().flat_map(|group| group.rules.iter().map(|rule| (group.tenancy(), rule)));
        let views = rules.zip(&self.states).map(|((tenancy, rule), state)| {
            AnyView::at(rule.quota, state.as_ref(), self.now, tenancy).map_err(|error| unreadable(&error))
        });
        views.collect()
    }
}

/// Returns views in the order of the request, and what is asked of them: which rule binds is told by its position there.
fn in_order<'v>(groups: &[RuleGroup<'_>], views: Vec<AnyView<'v>>) -> (Vec<AnyView<'v>>, Vec<Asked>) {
    let asked = groups.iter().flat_map(|group| group.rules.iter().map(|rule| rule.asked));
    if groups.is_sorted_by_key(|group| group.place) {
        return (views, asked.collect());
    }
    let places = groups.iter().flat_map(|group| repeat_n(group.place, group.rules.len()));
    let mut placed: Vec<_> = places.zip(views.into_iter().zip(asked)).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, of_rule)| of_rule).unzip()
}

/// Returns the standing of what each rule says.
fn standing(each: Vec<Decision>, asked: &[Asked]) -> Standing {
    let binding = each.iter().zip(asked).map(|(decision, asked)| (*decision, asked.shadow_of.is_none()));
    let decision = composite::join_binding(binding);
    Standing { each, ..Standing::of(decision) }
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

pub(super) fn expected(what: &str) -> StoreError {
    RedisError::unparsed("the script", what).into()
}
