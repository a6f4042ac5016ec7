//! How much is logged, and in which form, as flags and files spell it.

use serde::Deserialize;

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Log failures only.
    Error,
    /// Also log what may become a failure.
    Warn,
    /// Also what happens to the server.
    #[default]
    Info,
    /// Also what happens to each connection.
    Debug,
    /// Everything, including what libraries log.
    Trace,
}

/// In which form the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines of text, for people.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}
