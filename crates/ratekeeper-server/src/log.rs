//! What is logged, how often, and in which form. Who collects it is the program's business.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Text in one line: what a server far away says may hold anything, and a line of the log is one event.
pub(crate) fn one_line(text: &dyn Display) -> String {
    let text = text.to_string();
    let lines = text.split(|char: char| char.is_control()).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
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
