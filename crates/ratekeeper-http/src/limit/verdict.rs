//! What a decision came to.

use http::Method;
use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Name, Nanos};

use super::Upgrade;
use super::permits::InFlightPermit;
use super::policy_headers::LimitReport;
use super::refundable_charge::RefundableCharge;
use crate::key::ExtractError;

/// What becomes of a request.
pub(crate) enum LimitVerdict {
    Pass(AdmittedRequest),
    Refuse(Box<LimitRefusal>),
    Fail(Box<LimitFailure>),
}

/// What a request that is served holds until its response has ended.
#[derive(Default)]
pub(crate) struct AdmittedRequest {
    pub(crate) report: LimitReport,
    /// In a box, as the pending charge: most limits have no permits, and charge on arrival.
    pub(crate) permit: Option<Box<InFlightPermit>>,
    pub(crate) charge: Option<Box<RefundableCharge>>,
    /// Of a request with a permit that asks for an upgrade.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) method: MethodKind,
}

/// What a request's method says of the body of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MethodKind {
    /// There is a body, unless the status says otherwise.
    #[default]
    Ordinary,
    /// `HEAD`: there is no body, whatever the headers say.
    Head,
    /// `CONNECT`: a success opens a tunnel instead.
    Connect,
}

impl From<&Method> for MethodKind {
    fn from(method: &Method) -> Self {
        match *method {
            Method::HEAD => MethodKind::Head,
            Method::CONNECT => MethodKind::Connect,
            _ => MethodKind::Ordinary,
        }
    }
}

/// Why a request is refused.
pub(crate) struct LimitRefusal {
    pub(crate) report: LimitReport,
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
