//! The rules of a request, grouped by the key on the server that holds their states.

use std::borrow::Cow;

use ratekeeper::algorithm::Tenancy;
use ratekeeper::algorithm::composite::Asked;
use ratekeeper::port::Request;
use ratekeeper::state::{StorageKey, shared_name};
use ratekeeper::{Cost, Key, Name, Quota, Rules, StoreError, StoreErrorKind};

use crate::encoding::{Encoding, Encodings};
use crate::error::RedisError;
use crate::script::RuleKind;

/// The rules whose states lie under one key of the server.
#[derive(Debug)]
pub(crate) struct RuleGroup<'a> {
    pub(crate) plan: Option<&'a Name>,
    pub(crate) encoding: Encoding,
    pub(crate) rules: Vec<GroupedRule<'a>>,
    /// Which one it is, in the order of the request's rules.
    pub(crate) place: usize,
}

/// A rule, and the name by which its state is found.
#[derive(Clone, Debug)]
pub(crate) struct GroupedRule<'a> {
    pub(crate) name: Cow<'a, Name>,
    pub(crate) quota: &'a Quota,
    pub(crate) kind: RuleKind,
    pub(crate) asked: Asked,
    /// Its position among the rules of the request.
    pub(crate) number: usize,
    /// Of a hold that ends, whether more is charged than was estimated, instead of less.
    pub(crate) is_more: bool,
    /// Of a hold that ends, its place among those in shadow when it was made; zero if it was not in shadow.
    pub(crate) flag: u8,
}

/// Returns the groups of a request, in the order of its rules.
///
/// # Errors
///
/// `Unsupported` for a quota that no stored state decides: a concurrency limit.
pub(crate) fn groups<'a>(
    request: &Request<'a>,
    encodings: &Encodings,
) -> Result<Vec<RuleGroup<'a>>, StoreError> {
    let (mut groups, mut shares) = (Vec::with_capacity(1), request.shares());
    let mut asked = || {
        let share = shares.next();
        share.map_or(Cost::ZERO.into(), |share| Asked { cost: share.cost, shadow_of: share.shadow_of })
    };
    if let Rules::Quota(quota) = request.rules {
        let name = shared_name(quota).map_err(|error| unsupported(error.to_string()))?;
        add(&mut groups, None, [grouped(Cow::Owned(name), quota, asked(), 0)], encodings)?;
        return Ok(groups);
    }
    let mut number = 0..;
    for plan in request.rules.plans() {
        let rules = plan.rules().iter().map(|rule| {
            let number = number.next().unwrap_or_default();
            grouped(Cow::Borrowed(rule.name()), rule.quota(), asked(), number)
        });
        add(&mut groups, Some(plan.name()), rules, encodings)?;
    }
    Ok(groups)
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

/// Returns a rule that is asked for so much.
pub(super) fn grouped<'a>(
    name: Cow<'a, Name>,
    quota: &'a Quota,
    asked: Asked,
    number: usize,
) -> Result<GroupedRule<'a>, StoreError> {
    match RuleKind::of(quota) {
        Some(kind) => Ok(GroupedRule { name, quota, kind, asked, number, is_more: false, flag: 0 }),
        None => {
            Err(unsupported(format!("rule: `{name}` is `{quota}`; it counts what is in flight: use hold")))
        }
    }
}

/// Adds the rules of a plan, or the one quota that a request brings.
pub(super) fn add<'a>(
    groups: &mut Vec<RuleGroup<'a>>,
    plan: Option<&'a Name>,
    rules: impl IntoIterator<Item = Result<GroupedRule<'a>, StoreError>>,
    encodings: &Encodings,
) -> Result<(), StoreError> {
    let (encoding, rules) = (encodings.of(plan), rules.into_iter());
    match encoding {
        Encoding::Ascii => {
            let (rules, place) = (rules.collect::<Result<_, _>>()?, groups.len());
            groups.push(RuleGroup { plan, encoding, rules, place });
        }
        Encoding::Binary => {
            for rule in rules {
                let (rules, place) = (vec![rule?], groups.len());
                groups.push(RuleGroup { plan, encoding, rules, place });
            }
        }
    }
    Ok(())
}

/// Puts groups into the order of their shapes. A client may name its plans in any order, and each order would be a script
/// of its own, which the server compiles and keeps: for eight plans, 40,320 of them.
pub(crate) fn sort_by_shape(groups: &mut [RuleGroup<'_>]) {
    groups.sort_by(|one, other| {
        let [one_kinds, other_kinds] = [one, other].map(|group| {
            let rules = group.rules.iter();
            rules.map(|rule| (rule.kind, rule.asked.shadow_of.is_some()))
        });
        let by_encoding = (one.encoding == Encoding::Binary).cmp(&(other.encoding == Encoding::Binary));
        by_encoding.then_with(|| one_kinds.cmp(other_kinds))
    });
}

impl RuleGroup<'_> {
    /// Returns the key on the server that holds the states: a string for a plan or for the quotas that requests bring, a hash
    /// for each rule.
    pub(crate) fn storage_key<'k>(&'k self, prefix: &'k str, key: Key<'k>) -> StorageKey<'k> {
        let shared = StorageKey::new(prefix, key);
        match (self.plan, self.encoding, self.rules.first()) {
            (None, Encoding::Ascii, _) => shared,
            (None, Encoding::Binary, _) => shared.of_fields(),
            (Some(plan), Encoding::Binary, Some(rule)) => shared.of_rule(plan, &rule.name),
            (Some(plan), ..) => shared.of_plan(plan),
        }
    }

    /// Returns true if the states are where another group of the same key has its own.
    pub(super) fn is_where(&self, other: &RuleGroup<'_>) -> bool {
        let is_same_rule = || {
            let [one, other] = [self, other].map(|group| group.rules.first().map(|rule| &rule.name));
            one == other
        };
        let has_own = self.encoding == Encoding::Binary && self.tenancy() == Tenancy::Own;
        (self.plan, self.encoding) == (other.plan, other.encoding) && (!has_own || is_same_rule())
    }

    /// Returns whether a plan owns the states, or requests that bring quotas share them.
    pub(crate) fn tenancy(&self) -> Tenancy {
        if self.plan.is_some() { Tenancy::Own } else { Tenancy::Shared }
    }

    /// Returns the one rule of a group in binary, which has just one.
    pub(super) fn first_rule(&self) -> Result<&GroupedRule<'_>, RedisError> {
        self.rules.first().ok_or_else(|| RedisError::script_fault("a key without a rule"))
    }

    /// Returns the rules by the names of their states.
    pub(crate) fn named(&self) -> impl ExactSizeIterator<Item = (&Name, &Quota)> + Clone {
        self.rules.iter().map(|rule| (&*rule.name, rule.quota))
    }
}

/// What follows the key in the name of the hash that has its holds. No name has a `%`.
pub(crate) const HOLDS: &[u8] = b"%holds";

/// What follows the key in the name of the sorted set that has the ends of their leases.
pub(crate) const LEASES: &[u8] = b"%leases";

/// What this store keeps under a name of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyContent {
    /// The states of a group.
    State,
    /// A note of when a group was last reset.
    Reset,
    /// Holds, or the ends of their leases.
    Holds,
}

/// Returns what is under a name; none for permits, and for names that this store does not write.
pub(crate) fn key_content(name: &[u8]) -> Option<KeyContent> {
    let close = name.iter().rposition(|byte| *byte == b'}')?;
    match &name[close + 1..] {
        after if after.starts_with(b":!") => None,
        after if StorageKey::is_reset(after) => Some(KeyContent::Reset),
        HOLDS | LEASES => Some(KeyContent::Holds),
        _ => Some(KeyContent::State),
    }
}
