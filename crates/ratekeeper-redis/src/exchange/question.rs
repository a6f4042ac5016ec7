//! The call that puts a request to a script.

use ratekeeper::algorithm::{SLACK, Tenancy};
use ratekeeper::port::Request;
use ratekeeper::state::StorageKey;
use ratekeeper::{Algorithm, Anchor, Cost, Nanos, Plan, Quota, Timestamp, When};

use super::group::{GroupedRule, HOLDS, LEASES, RuleGroup};
use super::held_rules::HeldRules;
use super::numbers::{write_double, write_instant, write_natural};
use crate::encoding::Encoding;
use crate::script::{RuleNumber, ScriptCall, ScriptShape, ScriptVerb};

/// What a script is asked: a verb, and to give something back, when it was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptQuestion {
    pub(crate) verb: ScriptVerb,
    pub(crate) charged: Option<When>,
    /// The least that is granted of a cost that may be granted in part.
    pub(crate) least: Cost,
    /// What is told is about one more of everything, and not about what was asked for.
    pub(crate) is_of_one_more: bool,
}

/// What a script is told about holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldQuestion<'a> {
    pub(crate) rules: &'a HeldRules<'a>,
    /// The plans of which nothing may be left to be given back before it is answered.
    pub(crate) refunds: &'a [&'a Plan],
    /// The lease in microseconds, of a hold that is made or prolonged.
    pub(crate) lease: u64,
    /// The arguments before the names of the sums.
    pub(crate) arguments: &'a [&'a [u8]],
}

impl From<ScriptVerb> for ScriptQuestion {
    fn from(verb: ScriptVerb) -> Self {
        ScriptQuestion { verb, charged: None, least: Cost::ZERO, is_of_one_more: false }
    }
}

impl ScriptQuestion {
    /// Returns the question to give back what was charged then.
    pub(crate) fn refund(charged: When) -> Self {
        ScriptQuestion { charged: Some(charged), ..ScriptVerb::Refund.into() }
    }

    /// Returns the question for as much as there is of the request's cost, and no less than this.
    pub(crate) fn at_least(least: Cost) -> Self {
        ScriptQuestion { least, ..ScriptVerb::AcquireUpTo.into() }
    }

    /// Returns the question that these rules are asked. What costs nothing changes nothing, so that it is only read.
    pub(crate) fn of(self, groups: &[RuleGroup<'_>]) -> Self {
        let takes = groups.iter().flat_map(|group| &group.rules).any(|rule| rule.asked.cost != Cost::ZERO);
        if takes || self.verb == ScriptVerb::Forget {
            return self;
        }
        ScriptQuestion { is_of_one_more: self.verb == ScriptVerb::Debit, ..ScriptVerb::Peek.into() }
    }

    /// Returns the shape of the script that answers for these rules.
    pub(crate) fn shape(self, groups: &[RuleGroup<'_>]) -> ScriptShape {
        let mut shape = ScriptShape::new(self.verb, groups.iter().map(|group| group.rules.len()).sum());
        for group in groups {
            shape.group(group.encoding, group.tenancy());
            for rule in &group.rules {
                shape.rule(rule.kind, rule.asked.shadow_of.is_some() && self.verb.knows_shadow());
                if rule.asked.cost == Cost::ZERO && self.verb.is_shared_out() {
                    shape.make_uneven();
                }
            }
        }
        shape
    }

    /// Returns the keys and arguments of the call, as `script/generator.rs` describes them. `guess` is about the server's
    /// time, for the edges of windows; `given` is the time of a test.
    pub(crate) fn call(
        self,
        request: &Request<'_>,
        groups: &[RuleGroup<'_>],
        held: Option<&HeldQuestion<'_>>,
        prefix: &str,
        guess: impl Fn() -> Timestamp,
        given: Option<Timestamp>,
    ) -> ScriptCall {
        let rules: usize = groups.iter().map(|group| group.rules.len()).sum();
        let mut call = ScriptCall::with_capacity(2 + groups.len() * 4, 96 + 64 * groups.len() + 160 * rules);
        for group in groups {
            group.storage_key(prefix, request.key).write_to(call.buffer());
            call.end_key();
        }
        for group in groups.iter().filter(|_| self.verb.concerns_resets()) {
            group.storage_key(prefix, request.key).reset().write_to(call.buffer());
            call.end_key();
        }
        for name in [HOLDS, LEASES].iter().filter(|_| held.is_some()) {
            StorageKey::new(prefix, request.key).write_to(call.buffer());
            call.buffer().extend_from_slice(name);
            call.end_key();
        }
        if let (Some(held), ScriptVerb::Hold | ScriptVerb::Extend) = (held, self.verb) {
            write_double(double(held.lease), call.buffer());
            write_double(held.rules.shadows.into(), call.buffer());
            write_double(double(held.rules.kept()), call.buffer());
        }
        self.write_numbers(request.cost.get(), groups, guess, call.buffer());
        if let Some(held) = held {
            self.write_sums(held.rules, call.buffer());
        }
        call.end_arg();
        groups.iter().for_each(|group| write_texts(group, &mut call));
        if let Some(held) = held {
            held.arguments.iter().for_each(|argument| call.arg(argument));
            for sum in &held.rules.sums {
                call.buffer().push(b'=');
                call.buffer().extend_from_slice(&sum.rule.to_le_bytes());
                call.end_arg();
            }
            for plan in held.refunds {
                call.buffer().push(b'<');
                call.buffer().extend_from_slice(plan.name().as_str().as_bytes());
                call.end_arg();
            }
        }
        if let Some(given) = given {
            call.number(given.as_nanos());
        }
        call
    }

    fn write_numbers(
        self,
        cost: u64,
        groups: &[RuleGroup<'_>],
        guess: impl Fn() -> Timestamp,
        into: &mut Vec<u8>,
    ) {
        let rules = || groups.iter().flat_map(|group| &group.rules);
        match (self.verb, self.charged) {
            (ScriptVerb::AcquireUpTo, _) => {
                // More than a burst never passes: of the most that would ask for too much, and of the least one more says it all.
                let binding = rules().filter(|rule| rule.asked.shadow_of.is_none());
                let burst = binding.map(|rule| rule.quota.burst()).fold(u64::MAX, u64::min);
                write_natural(cost.min(burst), into);
                write_natural(self.least.get().min(burst.saturating_add(1)), into);
            }
            (ScriptVerb::Refund, Some(When::At(instant))) => {
                write_double(1.0, into);
                write_instant(instant, into);
            }
            (ScriptVerb::Refund, Some(When::Ago(age))) => {
                write_double(0.0, into);
                write_natural(age.as_nanos(), into);
            }
            _ => {}
        }
        for rule in rules() {
            self.write_rule(rule, &guess, into);
            if let Some(plan) = rule.asked.shadow_of.filter(|_| self.verb.knows_shadow()) {
                write_double(plan.into(), into);
            }
            if self.verb.ends_hold() {
                write_double(f64::from(u8::from(rule.is_more)), into);
                write_double(rule.flag.into(), into);
            }
        }
    }

    /// Writes what a rule needs and the numbers of its quota.
    pub(super) fn write_rule(
        self,
        rule: &GroupedRule<'_>,
        guess: impl Fn() -> Timestamp,
        into: &mut Vec<u8>,
    ) {
        let mut edge = None;
        for number in rule.kind.numbers(self.verb) {
            match number {
                RuleNumber::Need => self.write_need(rule, into),
                RuleNumber::Each => write_natural(rule.quota.emission_interval().as_nanos(), into),
                RuleNumber::Refill => write_natural(rule.quota.refill_time().as_nanos(), into),
                RuleNumber::Reach => {
                    let refill = rule.quota.refill_time();
                    write_natural(refill.saturating_add(refill).saturating_add(SLACK).as_nanos(), into);
                }
                RuleNumber::Capacity => write_double(double(rule.quota.burst()), into),
                RuleNumber::Rate => write_double(rule.quota.rate(), into),
                RuleNumber::ReachNanos => {
                    let refill = double(rule.quota.refill_time().as_nanos());
                    let reach = 2.0 * refill + double(SLACK.as_nanos());
                    write_double(reach, into);
                }
                RuleNumber::Limit => write_natural(rule.quota.burst(), into),
                RuleNumber::Length => write_natural(rule.quota.period().as_nanos(), into),
                RuleNumber::Bound => write_double(rule.quota.log_bound().into(), into),
                RuleNumber::Edge(_) => {
                    // The start of the window of now, and then the ends of three.
                    let at = match edge {
                        Some(edge) => window(rule.quota, edge).1,
                        None => window(rule.quota, guess()).0,
                    };
                    edge = Some(at);
                    write_instant(at, into);
                }
            }
        }
    }

    fn write_sums(self, rules: &HeldRules<'_>, into: &mut Vec<u8>) {
        for sum in &rules.sums {
            match self.verb {
                ScriptVerb::Hold => {
                    write_natural(sum.amount, into);
                    write_natural(sum.most, into);
                    write_double(sum.shadow_of.map_or(-1.0, f64::from), into);
                }
                ScriptVerb::End => {
                    write_natural(sum.amount, into);
                    write_double(sum.flag.into(), into);
                }
                _ => {}
            }
        }
    }

    /// What a rule needs of the cost, in what its algorithm counts. A cost beyond the burst needs more than there is.
    fn write_need(self, rule: &GroupedRule<'_>, into: &mut Vec<u8>) {
        let (quota, asked) = (rule.quota, rule.asked.cost);
        let cost = if self.is_of_one_more { 1 } else { asked.get() };
        let asks = matches!(self.verb, ScriptVerb::Acquire | ScriptVerb::Hold);
        let is_too_much = asks && cost > quota.burst();
        match quota.algorithm() {
            Algorithm::Gcra if is_too_much => write_natural(quota.refill_time().as_nanos() + 1, into),
            Algorithm::Gcra => write_natural(cost.saturating_mul(quota.emission_interval().as_nanos()), into),
            Algorithm::TokenBucket | Algorithm::LeakyBucket if is_too_much => {
                write_double(f64::INFINITY, into);
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket => write_double(double(cost), into),
            _ => write_natural(cost, into),
        }
    }
}

/// Returns the nearest double.
#[expect(clippy::cast_precision_loss, reason = "as the engine does")]
fn double(number: u64) -> f64 {
    number as f64
}

/// Writes the arguments by which a script reads and writes the states of a group.
pub(super) fn write_texts(group: &RuleGroup<'_>, call: &mut ScriptCall) {
    match (group.encoding, group.tenancy()) {
        (Encoding::Ascii, _) => {
            write_pattern(group, call.buffer());
            call.end_arg();
            write_format(group, call.buffer());
            call.end_arg();
        }
        (Encoding::Binary, Tenancy::Own) => {}
        (Encoding::Binary, Tenancy::Shared) => {
            for rule in &group.rules {
                call.buffer().extend_from_slice(rule.name.as_str().as_bytes());
                call.buffer().push(b'/');
                call.end_arg();
            }
        }
    }
}

/// Writes the usual text of a group as a pattern of Lua, which captures its numbers.
fn write_pattern(group: &RuleGroup<'_>, into: &mut Vec<u8>) {
    let escaped = |name: &str, into: &mut Vec<u8>| {
        for byte in name.bytes() {
            if !byte.is_ascii_alphanumeric() {
                into.push(b'%');
            }
            into.push(byte);
        }
    };
    into.push(b'^');
    write_states(group, into, b"%$", escaped, |rule, into| rule.kind.write_pattern(into));
    into.push(b'$');
}

/// Like [`write_pattern`], but as a format of Lua. No name has a `%`, so no name needs an escape.
fn write_format(group: &RuleGroup<'_>, into: &mut Vec<u8>) {
    let plain = |name: &str, into: &mut Vec<u8>| into.extend_from_slice(name.as_bytes());
    write_states(group, into, b"$", plain, |rule, into| rule.kind.write_format(into));
}

fn write_states(
    group: &RuleGroup<'_>,
    into: &mut Vec<u8>,
    separator: &[u8],
    write_name: impl Fn(&str, &mut Vec<u8>),
    write_fields: impl Fn(&GroupedRule<'_>, &mut Vec<u8>),
) {
    // The only quota that requests bring for a key is written without its name, if its algorithm needs no length.
    let is_plain = |rule: &GroupedRule<'_>| {
        group.tenancy() == Tenancy::Shared
            && matches!(
                rule.quota.algorithm(),
                Algorithm::Gcra | Algorithm::TokenBucket | Algorithm::LeakyBucket
            )
    };
    for (index, rule) in group.rules.iter().enumerate() {
        if !is_plain(rule) {
            into.extend_from_slice(if index == 0 { b"81|" } else { separator });
            write_name(rule.name.as_str(), into);
            into.push(b'=');
        }
        into.extend_from_slice(rule.kind.header().as_bytes());
        if rule.kind.is_fixed() {
            into.extend_from_slice(b"|1|");
            write_name(rule.name.as_str(), into);
        }
        write_fields(rule, into);
    }
}

/// Returns the start and the end of the window that an instant lies in.
fn window(quota: &Quota, at: Timestamp) -> (Timestamp, Timestamp) {
    if let Algorithm::FixedWindow(Anchor::Calendar(calendar)) = quota.algorithm() {
        return calendar.window(at);
    }
    let length = i128::from(quota.period().as_nanos()).max(1);
    let into = i128::from(at.as_nanos()).rem_euclid(length);
    let nanos = |nanos: i128| Nanos::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    (at.saturating_sub(nanos(into)), at + nanos(length - into))
}
