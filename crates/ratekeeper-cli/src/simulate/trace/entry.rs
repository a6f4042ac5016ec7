//! One request of a trace.

use ratekeeper::Timestamp;

/// What one line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry<'a> {
    /// When the request was made.
    pub at: Timestamp,
    /// Who made it; empty where the trace tells nobody apart.
    pub key: &'a [u8],
    /// How much it costs.
    pub cost: u64,
}
