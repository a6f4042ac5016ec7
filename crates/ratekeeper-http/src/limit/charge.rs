//! Which requests are charged in the end.

/// Which requests are charged in the end. In every case the cost is taken before the request is served, so that no
/// more than the quota are ever served at once; what is not charged is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Charge {
    /// All that were let in.
    #[default]
    OnArrival,
    /// Those that failed: with a status of 400 or more, a gRPC status other than 0, or an error of the service. For
    /// attempts at guessing.
    OnFailure,
    /// Those that were answered to the end. Who hung up before that, and whose request failed with an error of the
    /// service, gets the cost back.
    OnCompletion,
}
