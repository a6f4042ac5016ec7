//! Where the states of a request are: one place for each key on the server.

use ratekeeper::port::Request;
use ratekeeper::{Key, Name, Plan, Quota, Rules, StoreError, StoreErrorKind};

use crate::encoding::{Encoding, Encodings};
use crate::library::Kind;

/// The most windows that one text holds.
const MOST_WINDOWS: usize = 8;

/// A key on the server, and the rules whose states are under it.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) plan: Option<&'a Name>,
    pub(crate) encoding: Encoding,
    pub(crate) rules: Vec<(&'a Name, &'a Quota, Kind)>,
}

/// The places of a request, in order of its rules. Refused are quotas that no stored state decides, and plans that
/// their encoding cannot hold.
pub(crate) fn places<'a>(
    request: &Request<'a>,
    encodings: &Encodings,
    ad_hoc: &'a Name,
) -> Result<Vec<Place<'a>>, StoreError> {
    let mut places = Vec::with_capacity(1);
    match request.rules {
        Rules::Quota(quota) => add(&mut places, None, std::iter::once((ad_hoc, quota)), encodings)?,
        Rules::Plan(plan) => add(&mut places, Some(plan.name()), named(plan), encodings)?,
        Rules::Plans(plans) => {
            for plan in plans {
                add(&mut places, Some(plan.name()), named(plan), encodings)?;
            }
        }
    }
    Ok(places)
}

fn named(plan: &Plan) -> impl ExactSizeIterator<Item = (&Name, &Quota)> {
    plan.rules().iter().map(|rule| (rule.name(), rule.quota()))
}

fn add<'a>(
    places: &mut Vec<Place<'a>>,
    plan: Option<&'a Name>,
    rules: impl ExactSizeIterator<Item = (&'a Name, &'a Quota)>,
    encodings: &Encodings,
) -> Result<(), StoreError> {
    let encoding = encodings.of(plan);
    let unsupported = |message: String| StoreError::new(StoreErrorKind::Unsupported, message);
    let rules = rules.map(|(name, quota)| match Kind::of(quota) {
        Some(kind) => Ok((name, quota, kind)),
        None => Err(unsupported(format!(
            "rule: `{name}` is `{quota}`; what is in flight is held by permits: use `Permits`, not a plan"
        ))),
    });
    match encoding {
        Encoding::Ascii => {
            let rules = rules.collect::<Result<Vec<_>, _>>()?;
            if rules.iter().filter(|(_, _, kind)| kind.is_window()).count() > MOST_WINDOWS {
                let message = "rules: more than 8 fixed windows; one text holds 8: use the binary encoding";
                return Err(unsupported(message.into()));
            }
            places.push(Place { plan, encoding, rules });
        }
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
    /// `a:b` would be where the hash of rule `b` of plan `a` is. A quota that belongs to no plan has an empty one.
    pub(crate) fn write_key(&self, prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
        write_tagged(prefix, key, into);
        if let Some(plan) = self.plan {
            into.push(b':');
            escape(plan.as_str().as_bytes(), b":", into);
        }
        if self.encoding == Encoding::Binary {
            into.extend_from_slice(if self.plan.is_some() { b":" } else { b"::" });
            if let Some((rule, _, _)) = self.rules.first() {
                into.extend_from_slice(rule.as_str().as_bytes());
            }
        }
    }
}

/// Writes what the keys of everything about a key begin with: `PREFIX:{KEY}`.
pub(crate) fn write_tagged(prefix: &str, key: Key<'_>, into: &mut Vec<u8>) {
    into.extend_from_slice(prefix.as_bytes());
    into.extend_from_slice(b":{");
    escape(key.as_bytes(), b"{}%", into);
    into.push(b'}');
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
