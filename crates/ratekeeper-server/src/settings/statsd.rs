//! Where counters are sent.

use std::time::Duration;

/// How the counters of Envoy's service are sent to statsd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdSettings {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is spoken to.
    pub protocol: StatsdProtocol,
    /// Which addresses of the host are used.
    pub family: StatsdFamily,
    /// The time between two reports.
    pub every: Duration,
    /// What is added to every name, in this order.
    pub tags: Vec<(String, String)>,
}

/// How statsd is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsdProtocol {
    /// One connection, as the Go service does it.
    #[default]
    Tcp,
    /// Datagrams of at most 1,432 bytes.
    Udp,
}

/// Which addresses of the host are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsdFamily {
    /// All.
    #[default]
    Any,
    /// Those of IPv4.
    V4,
    /// Those of IPv6.
    V6,
}
