//! What an upgraded connection holds.

use super::permits::InFlightPermit;
use super::request_hold::RequestHold;

/// What an upgraded connection holds until it ends.
pub(crate) struct ConnectionHold {
    pub(super) _permit: Option<InFlightPermit>,
    pub(super) _hold: Option<RequestHold>,
}
