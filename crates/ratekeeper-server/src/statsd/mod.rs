//! Counters of Envoy's service, sent to statsd under the names of the Go service.
//!
//! ```text
//! sender   a thread that sends        report   what has changed since it was last sent        sink   sockets
//! ```

mod report;
mod sender;
mod sink;

pub use sender::StatsdSender;
