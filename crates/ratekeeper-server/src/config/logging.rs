//! How much is logged, and in which form, as flags and files spell it.

use serde::Deserialize;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Errors.
    Error,
    /// Errors, and warnings.
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
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}
