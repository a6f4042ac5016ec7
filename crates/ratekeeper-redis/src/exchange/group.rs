//! Where the states of a request are: one place for each key on the server.

use std::borrow::Cow;

use ratekeeper::algorithm::Tenancy;
use ratekeeper::port::Request;
use ratekeeper::state::shared_name;
use ratekeeper::{Key, Name, Plan, Quota, Rules, StoreError, StoreErrorKind};

use crate::encoding::{Encoding, Encodings};
use crate::library::Kind;

/// What the key ends with at which the last reset of a place is noted. No name has a `%`.
pub(crate) const RESET: &[u8] = b"%reset";

/// A key on the server, and the rules whose states are under it.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) plan: Option<&'a Name>,
    pub(crate) encoding: Encoding,
    pub(crate) rules: Vec<Rule<'a>>,
}

/// A rule and the name by which its state is found.
#[derive(Clone, Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) name: Cow<'a, Name>,
    pub(crate) quota: &'a Quota,
    pub(crate) kind: Kind,
}

/// The places of a request, in order of its rules. Refused are quotas that no stored state decides.
pub(crate) fn places<'a>(request: &Request<'a>, encodings: &Encodings) -> Result<Vec<Place<'a>>, StoreError> {
    let mut places = Vec::with_capacity(1);
    match request.rules {
        Rules::Quota(quota) => {
            let name = shared_name(quota).map_err(|error| unsupported(error.to_string()))?;
            add(&mut places, None, std::iter::once((Cow::Owned(name), quota)), encodings)?;
        }
        Rules::Plan(plan) => add(&mut places, Some(plan.name()), named(plan), encodings)?,
        Rules::Plans(plans) => {
            for plan in plans {
                add(&mut places, Some(plan.name()), named(plan), encodings)?;
            }
        }
    }
    Ok(places)
}

fn named(plan: &Plan) -> impl ExactSizeIterator<Item = (Cow<'_, Name>, &Quota)> {
    plan.rules().iter().map(|rule| (Cow::Borrowed(rule.name()), rule.quota()))
}

fn unsupported(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, message)
}

fn add<'a>(
    places: &mut Vec<Place<'a>>,
    plan: Option<&'a Name>,
    rules: impl ExactSizeIterator<Item = (Cow<'a, Name>, &'a Quota)>,
    encodings: &Encodings,
) -> Result<(), StoreError> {
    let encoding = encodings.of(plan);
    let rules = rules.map(|(name, quota)| match Kind::of(quota) {
        Some(kind) => Ok(Rule { name, quota, kind }),
        None => Err(unsupported(format!(
            "rule: `{name}` is `{quota}`; what is in flight is held by permits: use `Permits`, not a plan"
        ))),
    });
    match encoding {
        Encoding::Ascii => places.push(Place { plan, encoding, rules: rules.collect::<Result<_, _>>()? }),
        Encoding::Binary => {
            for rule in rules {
                places.push(Place { plan, encoding, rules: vec![rule?] });
            }
        }
    }
    Ok(())
}

impl Place<'_> {
    /// Writes the key: `PREFIX:{KEY}:PLAN` for a string, `PREFIX:{KEY}:PLAN:RULE` for a hash.
    ///
    /// The braces are a hash tag: what is between them decides the slot in a cluster, so all places of a key share
    /// one, and a key must not bring its own. A `:` in the name of a plan is escaped like them, or the string of plan
    /// `a:b` would be where the hash of rule `b` of plan `a` is. The quotas that requests bring share one key, so that
    /// they are forgotten together: `PREFIX:{KEY}` for a string, `PREFIX:{KEY}::` for a hash.
    pub(crate) fn write_key(&self, prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
        write_tagged(prefix, key, into);
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

    /// Writes the key at which the last reset of this place is noted.
    pub(crate) fn write_reset_key(&self, prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
        self.write_key(prefix, key, into);
        into.extend_from_slice(RESET);
    }

    /// Whose the states here are.
    pub(crate) fn tenancy(&self) -> Tenancy {
        if self.plan.is_some() { Tenancy::Own } else { Tenancy::Shared }
    }

    /// The rules by name.
    pub(crate) fn named(&self) -> impl ExactSizeIterator<Item = (&Name, &Quota)> + Clone {
        self.rules.iter().map(|rule| (&*rule.name, rule.quota))
    }
}

/// Writes what the keys of everything about a key begin with: `PREFIX:{KEY}`.
pub(crate) fn write_tagged(prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
    write_start(prefix, key.as_bytes(), into);
    into.push(b'}');
}

/// Writes what the names begin with of all keys that start like this.
pub(crate) fn write_start(prefix: &str, start: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(prefix.as_bytes());
    into.extend_from_slice(b":{");
    escape(start, b"{}%", into);
}

/// What the store keeps under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// States.
    State,
    /// When a place was last reset.
    Reset,
}

/// What is under this name, if it is one of the store's; none for permits, and for names of nothing that it keeps.
pub(crate) fn kept(name: &[u8]) -> Option<Kept> {
    let close = name.iter().rposition(|byte| *byte == b'}')?;
    match &name[close + 1..] {
        after if after.starts_with(b":!") => None,
        after if after.ends_with(RESET) => Some(Kept::Reset),
        _ => Some(Kept::State),
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
