//! Logs, to standard error: standard output belongs to whoever waits for the readiness line.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Text in one line: what a server far away says may hold anything, and a line of the log is one event.
pub(crate) fn one_line(text: &dyn Display) -> String {
    let text = text.to_string();
    let lines = text.split(|char: char| char.is_control()).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
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

/// Has what a client can cause over and over said once a second at most.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// The second in which it was said last.
    said: AtomicU64,
    unsaid: AtomicU64,
}

impl Seldom {
    pub(crate) const fn new() -> Self {
        Seldom { said: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// Tells that it is to be said now, and how often it was not since the last time.
    pub(crate) fn is_due(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.said.swap(now, Ordering::Relaxed) == now {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.unsaid.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_caused_over_and_over_is_said_once_a_second() {
        let seldom = Seldom::new();
        assert_eq!(seldom.is_due(), Some(0));
        let said: Vec<u64> = (0..1_000).filter_map(|_| seldom.is_due()).collect();
        // The second may have ended in between.
        assert!(said.len() <= 1, "{said:?}");
        assert_eq!(said.iter().sum::<u64>() + seldom.unsaid.into_inner() + said.len() as u64, 1_000);
    }
}
