//! A refusal, for those who listen.

use http::Response;
use ratekeeper::Decision;

/// A request that is refused, as [`Limit::on_denied`](super::Limit::on_denied) is called with it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Denied<'a> {
    /// The name of the limit.
    pub limit: &'a str,
    /// The name of the rule that bound the decision.
    pub rule: &'a str,
    /// The key of whoever is refused.
    pub key: &'a [u8],
    /// The decision that denies the request.
    pub decision: Decision,
    /// True if the request is served nevertheless, because the limit is in shadow mode.
    pub shadow: bool,
    /// The response, to be changed at will. In shadow mode it is not sent.
    pub response: &'a mut Response<Vec<u8>>,
}
