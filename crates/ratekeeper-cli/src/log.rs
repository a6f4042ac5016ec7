//! Where logs go: standard error. Standard output belongs to whoever waits for the readiness line.

use std::io::IsTerminal;

use ratekeeper_server::config::{LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging to standard error. A second start changes nothing.
///
/// Libraries underneath log a line for every frame that clients send, so theirs are left out below [`LogLevel::Trace`].
pub(crate) fn start(level: LogLevel, format: LogFormat) {
    let least = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let mut filter = Targets::new().with_default(least);
    if level != LogLevel::Trace {
        let libraries = ["h2", "hyper", "hyper_util", "tokio_util", "rustls"];
        filter = filter.with_targets(libraries.map(|library| (library, LevelFilter::ERROR)));
    }
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let _ = match format {
        LogFormat::Text => registry.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
