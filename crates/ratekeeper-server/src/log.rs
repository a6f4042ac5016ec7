//! Logs, to standard error: standard output belongs to whoever waits for the readiness line.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What went wrong.
    Error,
    /// And what may.
    Warn,
    /// And what happened to the server.
    #[default]
    Info,
    /// And what happened to each connection.
    Debug,
    /// And everything else.
    Trace,
}

/// In which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line, for machines.
    Json,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => LevelFilter::ERROR,
            Level::Warn => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
            Level::Trace => LevelFilter::TRACE,
        }
    }
}

/// Starts logging. A second start changes nothing.
///
/// What the libraries underneath have to say is about what clients send, a line for a frame: it is left out unless
/// everything is asked for.
pub fn start(level: Level, format: Format) {
    let filter = match level {
        Level::Trace => Targets::new().with_default(LevelFilter::TRACE),
        _ => Targets::new().with_default(level).with_targets(
            ["h2", "hyper", "hyper_util", "tokio_util", "rustls"]
                .map(|library| (library, LevelFilter::ERROR)),
        ),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let _ = match format {
        Format::Text => registry.with(lines.with_ansi(std::io::stderr().is_terminal())).try_init(),
        Format::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
}
