//! What is counted in front of a remote store.

use ratekeeper::store::{DenialStatistics, LeaseStatistics};

/// What the layers in front of a remote store have counted; none of a layer that the store does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontCounts {
    /// Denials that are repeated without asking.
    pub denials: Option<DenialStatistics>,
    /// Tokens that were taken ahead.
    pub leases: Option<LeaseStatistics>,
}
