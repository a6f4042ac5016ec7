//! The rules of a request, grouped by the key on the server that holds their states.

use std::borrow::Cow;

use ratekeeper::algorithm::Tenancy;
use ratekeeper::port::Request;
use ratekeeper::state::shared_name;
use ratekeeper::{Key, Name, Plan, Quota, Rules, StoreError, StoreErrorKind};

use crate::encoding::{Encoding, Encodings};
use crate::error::RedisError;
use crate::script::RuleKind;

/// The end of the key that notes when the states of a group were last reset. No name has a `%`, so no state is there.
const RESET: &[u8] = b"%reset";

/// The rules whose states lie under one key of the server.
#[derive(Debug)]
pub(crate) struct RuleGroup<'a> {
    pub(crate) plan: Option<&'a Name>,
    pub(crate) encoding: Encoding,
    pub(crate) rules: Vec<GroupedRule<'a>>,
}

/// A rule, and the name by which its state is found.
#[derive(Clone, Debug)]
pub(crate) struct GroupedRule<'a> {
    pub(crate) name: Cow<'a, Name>,
    pub(crate) quota: &'a Quota,
    pub(crate) kind: RuleKind,
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
    let mut groups = Vec::with_capacity(1);
    match request.rules {
        Rules::Quota(quota) => {
            let name = shared_name(quota).map_err(|error| unsupported(error.to_string()))?;
            add(&mut groups, None, std::iter::once((Cow::Owned(name), quota)), encodings)?;
        }
        Rules::Plan(plan) => add(&mut groups, Some(plan.name()), named(plan), encodings)?,
        Rules::Plans(plans) => {
            for plan in plans {
                add(&mut groups, Some(plan.name()), named(plan), encodings)?;
            }
        }
    }
    Ok(groups)
}

fn named(plan: &Plan) -> impl ExactSizeIterator<Item = (Cow<'_, Name>, &Quota)> {
    plan.rules().iter().map(|rule| (Cow::Borrowed(rule.name()), rule.quota()))
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

fn add<'a>(
    groups: &mut Vec<RuleGroup<'a>>,
    plan: Option<&'a Name>,
    rules: impl ExactSizeIterator<Item = (Cow<'a, Name>, &'a Quota)>,
    encodings: &Encodings,
) -> Result<(), StoreError> {
    let encoding = encodings.of(plan);
    let rules = rules.map(|(name, quota)| match RuleKind::of(quota) {
        Some(kind) => Ok(GroupedRule { name, quota, kind }),
        None => Err(unsupported(format!(
            "rule: `{name}` is `{quota}`; a plan in Redis has no concurrency limits: use `RedisStore::permits`"
        ))),
    });
    match encoding {
        Encoding::Ascii => groups.push(RuleGroup { plan, encoding, rules: rules.collect::<Result<_, _>>()? }),
        Encoding::Binary => {
            for rule in rules {
                groups.push(RuleGroup { plan, encoding, rules: vec![rule?] });
            }
        }
    }
    Ok(())
}

impl RuleGroup<'_> {
    /// Writes the key: `PREFIX:{KEY}:PLAN` for a string, `PREFIX:{KEY}:PLAN:RULE` for a hash.
    ///
    /// The braces are a hash tag: what is between them decides the slot in a cluster, so all groups of a key share
    /// one, and a key must not bring its own. A `:` in the name of a plan is escaped like them, or the string of plan
    /// `a:b` would be where the hash of rule `b` of plan `a` is. The quotas that requests bring share one key, so that
    /// they are forgotten together: `PREFIX:{KEY}` for a string, `PREFIX:{KEY}::` for a hash.
    pub(crate) fn write_key(&self, prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
        write_tagged_key(prefix, key, into);
        match (self.plan, self.encoding) {
            (None, Encoding::Ascii) => {}
            (None, Encoding::Binary) => into.extend_from_slice(b"::"),
            (Some(plan), encoding) => {
                into.push(b':');
                escape(plan.as_str().as_bytes(), b":", into);
                if encoding == Encoding::Binary
                    && let Some(rule) = self.rules.first()
                {
                    into.push(b':');
                    into.extend_from_slice(rule.name.as_str().as_bytes());
                }
            }
        }
    }

    /// Writes the key that notes when this group was last reset.
    pub(crate) fn write_reset_key(&self, prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
        self.write_key(prefix, key, into);
        into.extend_from_slice(RESET);
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

/// Writes what every name about one key begins with: `PREFIX:{KEY}`.
pub(crate) fn write_tagged_key(prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
    write_key_start(prefix, key.as_bytes(), into);
    into.push(b'}');
}

/// Writes what every name about keys that start with `start` begins with: `PREFIX:{START`.
pub(crate) fn write_key_start(prefix: &str, start: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(prefix.as_bytes());
    into.extend_from_slice(b":{");
    escape(start, b"{}%", into);
}

/// What this store keeps under a name of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyContent {
    /// The states of a group.
    State,
    /// A note of when a group was last reset.
    Reset,
}

/// Returns what is under a name; none for permits, and for names that this store does not write.
pub(crate) fn key_content(name: &[u8]) -> Option<KeyContent> {
    let close = name.iter().rposition(|byte| *byte == b'}')?;
    match &name[close + 1..] {
        after if after.starts_with(b":!") => None,
        after if after.ends_with(RESET) => Some(KeyContent::Reset),
        _ => Some(KeyContent::State),
    }
}

/// Percent-encodes some bytes.
fn escape(bytes: &[u8], special: &[u8], into: &mut Vec<u8>) {
    for byte in bytes {
        if special.contains(byte) {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            into.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        } else {
            into.push(*byte);
        }
    }
}
