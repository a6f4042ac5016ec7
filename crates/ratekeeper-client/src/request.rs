//! A request by the names of plans, checked before anything is sent.

use std::time::Duration;

use crate::amounts::RemoteAmounts;
use crate::error::ClientError;
use crate::hold_id::RemoteHoldId;
use crate::quota::{checked_key, checked_name};

/// The most plans that one request may name.
const MOST_PLANS: usize = 8;
/// The most bytes of a plan's name.
const MAX_PLAN: usize = 64;
/// The longest lease, in milliseconds: 24 hours.
const LONGEST_LEASE: i64 = 24 * 60 * 60 * 1_000;

/// A request by the names of plans: who asks, what they are held to, and how much they take.
///
/// ```
/// use ratekeeper_client::{PlanRequest, RemoteAmounts};
///
/// let request = PlanRequest::new("user:42", ["llm"]).amounts(RemoteAmounts::unit("tokens", 5_200));
/// # let _ = request;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a request does nothing by itself: pass it to a client"]
pub struct PlanRequest {
    key: Vec<u8>,
    plans: Vec<String>,
    amounts: RemoteAmounts,
    tells_each: bool,
}

impl PlanRequest {
    /// Returns a request of one, for a key, held to all of these plans.
    pub fn new(key: impl Into<Vec<u8>>, plans: impl IntoIterator<Item = impl Into<String>>) -> Self {
        // No more than can be told apart from too many.
        let plans = plans.into_iter().take(MOST_PLANS + 1).map(Into::into).collect();
        PlanRequest { key: key.into(), plans, amounts: RemoteAmounts::UNSAID, tells_each: false }
    }

    /// Sets how much it takes.
    pub fn amounts(mut self, amounts: RemoteAmounts) -> Self {
        self.amounts = amounts;
        self
    }

    /// Has the answer tell what each rule says, and not only the one that binds.
    pub fn each(mut self) -> Self {
        self.tells_each = true;
        self
    }

    pub(crate) fn checked(&self) -> Result<RequestParts<'_>, ClientError> {
        if self.plans.is_empty() {
            return Err(wrong_plans("none", "name at least one plan"));
        }
        let plans = checked_plans(&self.plans)?;
        let (key, units) = (checked_key(&self.key)?, self.amounts.checked()?);
        let each = self.tells_each;
        Ok(RequestParts { key, plans, units, each, ..RequestParts::default() })
    }
}

/// Returns plans of which there are not too many, and whose names are not too long.
fn checked_plans(plans: &[String]) -> Result<&[String], ClientError> {
    if plans.len() > MOST_PLANS {
        return Err(wrong_plans("more than 8", "name at most 8 plans"));
    }
    for plan in plans {
        checked_name("plan", plan, MAX_PLAN, "the name of a plan has 1 to 64 bytes")?;
    }
    Ok(plans)
}

fn wrong_plans(value: &str, remedy: &'static str) -> ClientError {
    ClientError::Invalid { field: "plans", value: value.to_owned(), remedy }
}

/// What a map on the wire has, all within its bounds; what is left out is not written.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestParts<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) plans: &'a [String],
    pub(crate) id: Option<RemoteHoldId>,
    pub(crate) units: Vec<(&'a str, i64)>,
    pub(crate) age_ms: Option<i64>,
    pub(crate) lease_ms: Option<i64>,
    pub(crate) each: bool,
}

impl<'a> RequestParts<'a> {
    /// Returns what is asked about a hold of a key.
    pub(crate) fn held(key: &'a [u8], id: RemoteHoldId) -> Result<Self, ClientError> {
        Ok(RequestParts { key: checked_key(key)?, id: Some(id), ..RequestParts::default() })
    }

    /// Returns what is asked to be forgotten of a key; no plans stand for everything.
    pub(crate) fn forgotten(key: &'a [u8], plans: &'a [String]) -> Result<Self, ClientError> {
        let plans = checked_plans(plans)?;
        Ok(RequestParts { key: checked_key(key)?, plans, ..RequestParts::default() })
    }
}

/// Returns a lease in milliseconds, rounded up.
pub(crate) fn checked_lease(lease: Duration) -> Result<i64, ClientError> {
    let millis = in_millis(lease);
    match millis {
        1..=LONGEST_LEASE => Ok(millis),
        _ => {
            let value = format!("{lease:?}");
            Err(ClientError::Invalid { field: "lease", value, remedy: "pass 1 ms to 24 h" })
        }
    }
}

/// Returns milliseconds, rounded up and saturated.
pub(crate) fn in_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_before_anything_is_sent() {
        let error = |request: PlanRequest| request.checked().unwrap_err().to_string();
        let none: [&str; 0] = [];
        assert_eq!(error(PlanRequest::new("k", none)), "plans: none; name at least one plan");
        assert_eq!(error(PlanRequest::new("k", vec!["p"; 9])), "plans: more than 8; name at most 8 plans");
        assert!(error(PlanRequest::new("", ["p"])).starts_with("key: 0 bytes; "));
        assert!(PlanRequest::new("k", vec!["p"; 8]).checked().is_ok());
        let long = "the name of a plan has 1 to 64 bytes";
        assert_eq!(error(PlanRequest::new("k", ["p".repeat(70_000)])), format!("plan: 70000 bytes; {long}"));
        let plans = [String::new()];
        let forgotten = RequestParts::forgotten(b"k", &plans).unwrap_err();
        assert_eq!(forgotten.to_string(), format!("plan: 0 bytes; {long}"));
        let day = Duration::from_secs(86_400);
        assert_eq!(checked_lease(Duration::from_nanos(1)).unwrap(), 1);
        assert_eq!(checked_lease(day).unwrap(), 86_400_000);
        for wrong in [Duration::ZERO, day + Duration::from_nanos(1), Duration::MAX] {
            assert!(checked_lease(wrong).unwrap_err().to_string().ends_with("; pass 1 ms to 24 h"));
        }
    }
}
