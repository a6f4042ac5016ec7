//! Logs, to standard error: standard output belongs to whoever waits for the readiness line.

use std::io::IsTerminal;

/// Starts logging. A second start changes nothing.
pub fn start() {
    let colours = std::io::stderr().is_terminal();
    let _ = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colours).try_init();
}
