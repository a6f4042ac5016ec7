//! Logs, to standard error: standard output belongs to whoever waits for the readiness line.

use std::fmt::Display;
use std::io::IsTerminal;

use clap::ValueEnum;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

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
pub fn start(level: Level, format: Format) {
    let builder = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
    let _ = match format {
        Format::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
}
