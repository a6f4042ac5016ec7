//! What a decision came to.

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Name, Nanos};

use super::held_request::HeldRequest;
use super::policy_headers::LimitReport;
use crate::key::ExtractError;

/// What becomes of a request.
pub(crate) enum LimitVerdict {
    Pass(AdmittedRequest),
    Refuse(Box<LimitRefusal>),
    Fail(Box<LimitFailure>),
}

/// A request that is let in.
#[derive(Default)]
pub(crate) struct AdmittedRequest {
    /// What is reported of the rate; `None` also if nobody is told, which is what silent limits are fast by.
    pub(crate) rate: Option<LimitReport>,
    /// What it holds until its response has ended. In a box, because most hold nothing.
    pub(crate) held: Option<Box<HeldRequest>>,
}

/// Why a request is refused.
pub(crate) struct LimitRefusal {
    /// What the response says of the rate.
    pub(crate) rate: Option<LimitReport>,
    /// What the response says of how many are in flight.
    pub(crate) in_flight: Option<LimitReport>,
    pub(crate) decision: Decision,
    /// When it is worth coming back, as far as that can be told.
    pub(crate) expected: Option<Nanos>,
    pub(crate) rule: Name,
    pub(crate) key: Box<[u8]>,
}

/// Why a request could not be decided.
#[derive(Debug)]
pub(crate) enum LimitFailure {
    Key(ExtractError),
    Keeper(KeeperError),
}

impl LimitFailure {
    /// Returns true if the request is at fault: neither the limit's set-up nor its store.
    pub(crate) fn is_of_request(&self) -> bool {
        matches!(self, LimitFailure::Key(error) if error.is_of_request())
    }
}
