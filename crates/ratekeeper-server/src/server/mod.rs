//! Starts, announces and stops everything: the one place that knows all transports.
//!
//! ```text
//! server    runs the event loops, stops them    listeners   binds every transport
//! process   a server as a whole process: announces it, and obeys signals
//! signals   what the process is told            notify   what the service manager is told
//! host_name   what the machine calls itself
//! ```

mod host_name;
mod listeners;
mod notify;
mod process;
#[expect(clippy::module_inception, reason = "the folder is named after what it holds")]
mod server;
mod signals;

pub use process::{ProcessSignals, serve};
pub use server::Server;
