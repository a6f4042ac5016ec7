//! What is logged, how often, and in which form. Who collects it is the program's business.

use serde::Deserialize;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line, for machines.
    Json,
}
