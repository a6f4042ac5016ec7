//! Upgrades without hyper: none can be seen.

use super::connection_hold::ConnectionHold;

/// A request that asks for an upgrade: there are none, because nothing is known of upgrades without hyper.
pub(crate) enum NoUpgrade {}

impl NoUpgrade {
    pub(crate) fn intercept<B>(_: &mut http::Request<B>) -> Option<Self> {
        None
    }

    pub(crate) fn hold(self, _: ConnectionHold) {
        match self {}
    }
}
