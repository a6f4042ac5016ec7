//! Which requests are charged in the end.

/// Which requests are charged in the end. In every case the cost is taken before the request is served, so that no
/// more than the quota are ever served at once; what is not charged is given back, less what has refilled since it was
/// taken: slow requests that succeed together buy nobody more than the quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChargePolicy {
    /// Charges every request that was let in.
    #[default]
    OnArrival,
    /// Charges requests that did not succeed: with a status of 400 or more, a gRPC status other than 0 (also one that
    /// comes after the body), an error of the service, or no answer at all because the client hung up. For attempts at
    /// guessing: only a success is given back, so hanging up on wrong guesses gains nothing.
    ///
    /// Bodies are not read. A gRPC-web response whose status is in its body counts as a success, unless its headers say
    /// otherwise: put the limit inside the layer that translates gRPC-web, where the status is in trailers.
    OnFailure,
    /// Charges requests that were answered to the end. Who hung up before that, and whose request failed with an error
    /// of the service, gets the cost back. A response without a body (to `HEAD`, 204, 304, an upgrade) has ended with
    /// its headers, one with a known length (a `Content-Length`, or a body that knows its own) with its last byte. A
    /// stream without a length has ended only when its end is read: whoever hangs up after the last byte of data, but
    /// before the server has read that nothing follows, gets the cost back. Give such responses a `Content-Length` if
    /// that matters.
    OnCompletion,
}
