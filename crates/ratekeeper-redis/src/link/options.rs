//! How long to wait for what, and over how many connections.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The settings of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkOptions {
    /// How long one attempt to connect may take.
    pub(crate) connect_timeout: Duration,
    /// How long a command waits for its answer, whatever it takes to get it.
    pub(crate) command_timeout: Duration,
    /// How many connections each runtime has to each server.
    pub(crate) connections: NonZeroUsize,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            connect_timeout: Duration::from_millis(500),
            command_timeout: Duration::from_millis(100),
            connections: NonZeroUsize::MIN,
        }
    }
}
