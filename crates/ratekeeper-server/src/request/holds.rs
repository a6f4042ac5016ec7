//! The fields of requests about a hold.

use ratekeeper::port::{HoldId, HoldRequest};
use ratekeeper::{Key, Nanos};

use super::error::RequestError;
use super::field::RequestField;
use super::units::{said, within};
use super::wire_request::{RequestedHold, WireRequest};

/// The most bytes of an id that an error shows.
const MOST_SHOWN: usize = 40;

/// The verbs of requests about a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldVerb {
    /// Ends it with what was spent.
    Settle,
    /// Ends it, and nothing was spent.
    Cancel,
    /// Has it last longer.
    Extend,
}

/// The fields of a request about a hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HoldFields<'a> {
    /// Whose hold it is.
    pub(crate) key: &'a [u8],
    /// Its id, as the hold was answered.
    pub(crate) id: &'a [u8],
    /// How many requests were spent; as estimated if left out.
    pub(crate) cost: Option<u64>,
    /// How much of which unit was spent; as estimated where it is left out.
    pub(crate) units: &'a [(&'a str, u64)],
    /// How long it is to last from now.
    pub(crate) lease: Option<Nanos>,
}

impl<'a> HoldFields<'a> {
    /// Returns the request that the fields of this verb mean.
    ///
    /// # Errors
    ///
    /// The key is none, the id is not 32 hexadecimal digits, the cost is beyond 2^63 − 1, or the lease is missing, too
    /// short or too long.
    pub(crate) fn check(self, verb: HoldVerb) -> Result<WireRequest<'a>, RequestError> {
        let hold = RequestedHold { key: Key::new(self.key)?, id: id(self.id)? };
        Ok(match verb {
            HoldVerb::Settle => {
                within(self.cost)?;
                WireRequest::Settle(hold, said(self.cost, self.units))
            }
            HoldVerb::Cancel => WireRequest::Cancel(hold),
            HoldVerb::Extend => {
                let lease = self.lease.ok_or(RequestError::Missing(RequestField::Lease))?;
                WireRequest::Extend(hold, checked_lease(lease)?)
            }
        })
    }
}

/// Returns the lease, if it is neither too short nor too long.
pub(super) fn checked_lease(lease: Nanos) -> Result<Nanos, RequestError> {
    let wrong = |_| {
        let problem = format!("{:?}; must be 1 ms to 24 h", lease.as_duration());
        RequestError::Invalid(RequestField::Lease, problem)
    };
    HoldRequest::check_lease(lease).map(|()| lease).map_err(wrong)
}

fn id(text: &[u8]) -> Result<HoldId, RequestError> {
    if text.is_empty() {
        return Err(RequestError::Missing(RequestField::Id));
    }
    let read = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    read.ok_or_else(|| {
        let more = if text.len() > MOST_SHOWN { "..." } else { "" };
        let shown = text[..text.len().min(MOST_SHOWN)].escape_ascii();
        let problem =
            format!("`{shown}{more}`; must be the 32 hexadecimal digits that the hold was answered with");
        RequestError::Invalid(RequestField::Id, problem)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn wrong(fields: HoldFields<'_>, verb: HoldVerb) -> String {
        fields.check(verb).unwrap_err().to_string()
    }

    #[test]
    fn an_id_and_a_lease_are_checked_by_their_names() {
        let fields =
            HoldFields { key: b"k", id: ID, lease: Some(Nanos::from_millis(1)), ..HoldFields::default() };
        for verb in [HoldVerb::Settle, HoldVerb::Cancel, HoldVerb::Extend] {
            assert!(fields.check(verb).is_ok(), "{verb:?}");
            assert!(wrong(HoldFields { key: b"", ..fields }, verb).starts_with("key: 0 bytes; "));
            for id in [&b"\xff"[..], b"12", b"+123456789abcdef0123456789abcdef", &[b'g'; 32], &[b'a'; 500]] {
                let said = wrong(HoldFields { id, ..fields }, verb);
                assert!(said.starts_with("id: `") && said.contains("32 hexadecimal digits"), "{said}");
                assert!(said.len() < 200, "{said}");
            }
            assert!(wrong(HoldFields { id: b"", ..fields }, verb).starts_with("id: missing; "));
        }
        let day = Nanos::from_secs(24 * 60 * 60);
        let last = |lease| HoldFields { lease, ..fields };
        assert!(last(Some(day)).check(HoldVerb::Extend).is_ok());
        for (lease, says) in [
            (None, "lease_ms: missing; "),
            (Some(Nanos::ZERO), "lease_ms: 0ns; must be 1 ms to 24 h"),
            (Some(day.saturating_add(Nanos::from_nanos(1))), "lease_ms: 86400.000000001s; must be"),
            (Some(Nanos::MAX), "lease_ms: "),
        ] {
            let said = wrong(last(lease), HoldVerb::Extend);
            assert!(said.starts_with(says), "{said}");
        }
        assert!(last(None).check(HoldVerb::Settle).is_ok(), "what is not asked for is not checked");
        let much = HoldFields { cost: Some(1 << 63), ..fields };
        assert!(wrong(much, HoldVerb::Settle).starts_with("requests: 9223372036854775808; "));
    }
}
