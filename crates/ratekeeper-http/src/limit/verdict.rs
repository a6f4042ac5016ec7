//! What came out of a decision.

use http::{Method, Response};
use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Name, Nanos};

use super::{Seat, Standings, Tab, Upgrade};
use crate::key::ExtractError;

/// What is to become of a request.
pub(crate) enum Verdict {
    Pass(Pass),
    Refuse(Box<Refusal>),
    Fail(Box<Failure>),
}

/// It is served.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) standings: Standings,
    /// In a box, as what follows: most limits have no permits, and charge on arrival.
    pub(crate) seat: Option<Box<Seat>>,
    pub(crate) tab: Option<Box<Tab>>,
    /// Of a request with a seat that asks for an upgrade.
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) method: MethodKind,
}

/// What a request's method says of the body of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MethodKind {
    /// There is one, unless the status says otherwise.
    #[default]
    Ordinary,
    /// `HEAD`: there is none, whatever the headers say.
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

/// It is not, and this is why.
pub(crate) struct Refusal {
    pub(crate) standings: Standings,
    pub(crate) decision: Decision,
    /// When it is worth coming back, as far as that can be told.
    pub(crate) expected: Option<Nanos>,
    pub(crate) rule: Name,
    pub(crate) key: Box<[u8]>,
}

/// It could not be decided.
#[derive(Debug)]
pub(crate) enum Failure {
    Key(ExtractError),
    Keeper(KeeperError),
}

impl Failure {
    /// True if the request is at fault: neither the limit's set-up nor its store.
    pub(crate) fn is_of_request(&self) -> bool {
        matches!(self, Failure::Key(error) if error.is_of_request())
    }
}

/// A request that is refused, as [`Limit::on_denied`](super::Limit::on_denied) hears of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Denied<'a> {
    /// The limit.
    pub limit: &'a str,
    /// The rule that bound the decision.
    pub rule: &'a str,
    /// Who is refused.
    pub key: &'a [u8],
    /// The decision.
    pub decision: Decision,
    /// True if it is served nevertheless, because the limit is only tried out.
    pub shadow: bool,
    /// The response, to be changed at will. In shadow mode nobody gets it.
    pub response: &'a mut Response<Vec<u8>>,
}

/// The decision on a request, for its handler; see [`Limit::with_decision`](super::Limit::with_decision). In axum it is
/// an extractor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LimitDecision {
    /// The decision. In shadow mode it may be a denial.
    pub decision: Decision,
    /// The limit.
    pub limit: Name,
    /// The rule that bound the decision.
    pub rule: Name,
}
