//! How long an estimate is held, and what it is settled with.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use ratekeeper::port::{HoldRequest, LeaseError};
use ratekeeper::{Nanos, Unit};

use crate::usage::UnitList;

/// How a limit [holds](crate::Limit::hold): for how long at most without news, and what the estimate is settled with.
///
/// | the request | its hold is |
/// |---|---|
/// | was answered, and the body has ended | settled with what the response says it has [spent](crate::Spent), or as it was estimated |
/// | was answered, and the client hung up, or the body failed | settled with what was said so far, or as it was estimated |
/// | got no response: the handler failed, panicked, or the client hung up before | cancelled, or [charged](HoldPolicy::charge_unanswered) as it was estimated |
///
/// ```
/// use http::HeaderName;
/// use ratekeeper_http::HoldPolicy;
/// use std::time::Duration;
///
/// let policy = HoldPolicy::default()
///     .lease(Duration::from_secs(20))?
///     .spent_in(HeaderName::from_static("x-tokens-spent"), "tokens");
/// # let _ = policy;
/// # Ok::<(), ratekeeper::port::LeaseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HoldPolicy {
    lease: Nanos,
    charges_unanswered: bool,
    spent_in: Vec<(HeaderName, &'static str)>,
    keeps_headers: bool,
}

impl Default for HoldPolicy {
    fn default() -> Self {
        HoldPolicy {
            lease: HoldRequest::DEFAULT_LEASE,
            charges_unanswered: false,
            spent_in: Vec::new(),
            keeps_headers: false,
        }
    }
}

impl HoldPolicy {
    /// Sets how long a hold outlives this process: a minute by default. A request may take longer: its hold is extended every
    /// half of this, in the background, for as long as the request is served; outside of a tokio runtime it is not.
    ///
    /// Shorter is sooner free after a crash; longer is fewer calls to a store elsewhere, and a longer outage of the store that
    /// a request survives. A hold that has ended all the same does no harm to its request, which is answered as usual.
    ///
    /// # Errors
    ///
    /// If it is less than a millisecond, or more than 24 hours.
    pub fn lease(mut self, lease: Duration) -> Result<Self, LeaseError> {
        let lease = Nanos::from(lease);
        HoldRequest::check_lease(lease)?;
        self.lease = lease;
        Ok(self)
    }

    /// Charges a request that got no response as it was estimated, instead of cancelling its hold: for handlers that have
    /// spent it by then, whatever becomes of them.
    #[must_use]
    pub fn charge_unanswered(mut self) -> Self {
        self.charges_unanswered = true;
        self
    }

    /// Reads how much of a unit was spent from this field of the response, or of the trailers after its body, and removes it.
    /// A [`Spent`](crate::Spent) that says something else of the same unit wins. A field that is no whole number says nothing.
    ///
    /// # Panics
    ///
    /// If the word is no [`Unit`], when the limit is set up.
    #[must_use]
    pub fn spent_in(mut self, field: HeaderName, unit: &'static str) -> Self {
        let _: Unit = unit.parse().unwrap_or_else(|error| panic!("{error}"));
        self.spent_in.push((field, unit));
        self
    }

    /// Leaves the fields that tell what was [spent](HoldPolicy::spent_in) in the response.
    #[must_use]
    pub fn keep_spent_headers(mut self) -> Self {
        self.keeps_headers = true;
        self
    }

    pub(crate) fn lease_time(&self) -> Nanos {
        self.lease
    }

    pub(crate) fn charges_unanswered(&self) -> bool {
        self.charges_unanswered
    }

    /// Returns true if fields of the response, or of its trailers, say what was spent.
    pub(crate) fn reads_fields(&self) -> bool {
        !self.spent_in.is_empty()
    }

    /// Reads what these fields say was spent.
    pub(crate) fn read(&self, headers: &mut HeaderMap, spent: &mut UnitList) {
        for (field, unit) in &self.spent_in {
            let said = headers.get(field).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            if let Some(amount) = said {
                spent.set(unit, amount);
            }
            if !self.keeps_headers {
                headers.remove(field);
            }
        }
    }
}
