//! Shows how far a long replay has come, on standard error, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two messages.
const INTERVAL: Duration = Duration::from_millis(200);
/// The number of lines between two looks at the clock.
const LINES: u64 = 1 << 16;

/// Shows how far a file has been read.
#[derive(Debug)]
pub(super) struct ReplayProgress {
    /// The size of the file in bytes; nothing is shown if it is not known.
    of: Option<u64>,
    told: Instant,
    shown: bool,
}

impl ReplayProgress {
    pub(super) fn new(of: Option<u64>) -> Self {
        let of = of.filter(|_| std::io::stderr().is_terminal());
        ReplayProgress { of, told: Instant::now(), shown: false }
    }

    #[inline]
    pub(super) fn tell(&mut self, lines: u64, read: u64) {
        if lines.is_multiple_of(LINES) && self.of.is_some() {
            self.tell_slowly(lines, read);
        }
    }

    #[cold]
    fn tell_slowly(&mut self, lines: u64, read: u64) {
        let Some(of) = self.of else { return };
        if self.told.elapsed() < INTERVAL {
            return;
        }
        (self.told, self.shown) = (Instant::now(), true);
        let percent = read.saturating_mul(100) / of.max(1);
        // A message that cannot be shown is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{percent:>3} %, {lines} lines ");
    }
}

impl Drop for ReplayProgress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
