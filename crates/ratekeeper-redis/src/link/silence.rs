//! For how long a connection has been asked without answering, or has not been asked at all.
//!
//! Callers that give up say nothing about the server, and drop the replies that they no longer wait for. So silence alone
//! proves nothing: it is a reason to ask whether the other end is still there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The times at which a connection was last asked and has last answered.
#[derive(Debug)]
pub(super) struct ConnectionSilence {
    connected: Instant,
    /// When the first command was sent after the last reply, in nanoseconds from `connected`; 0 for none.
    since: AtomicU64,
    /// When the last reply came, in nanoseconds from `connected`; 0 for never.
    heard: AtomicU64,
    is_checked: AtomicBool,
}

impl ConnectionSilence {
    pub(super) fn new() -> Self {
        ConnectionSilence {
            connected: Instant::now(),
            since: 0.into(),
            heard: 0.into(),
            is_checked: false.into(),
        }
    }

    /// Notes that a command is on its way.
    pub(super) fn sent(&self) {
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Notes that a reply came back, whatever it says.
    pub(super) fn heard(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
    }

    /// Returns true if it has been connected for that long.
    pub(super) fn is_older_than(&self, span: Duration) -> bool {
        self.connected.elapsed() >= span
    }

    /// Returns true if anything ever came back.
    pub(super) fn has_answered(&self) -> bool {
        self.heard.load(Ordering::Relaxed) != 0
    }

    /// Returns true if nothing is under way, and nothing has come back for that long.
    pub(super) fn is_idle(&self, span: Duration) -> bool {
        let heard = self.heard.load(Ordering::Relaxed);
        self.since.load(Ordering::Relaxed) == 0 && self.now().saturating_sub(heard) >= nanos(span)
    }

    /// Returns true if a command has been without a reply for that long, to one caller at a time: the one that asks the
    /// other end, and calls [`checked`](ConnectionSilence::checked) when it has answered.
    pub(super) fn is_to_be_checked(&self, patience: Duration) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        since != 0
            && self.now().saturating_sub(since) >= nanos(patience)
            && !self.is_checked.swap(true, Ordering::Relaxed)
    }

    /// Notes that the other end has answered a check.
    pub(super) fn checked(&self) {
        self.heard();
        self.is_checked.store(false, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        nanos(self.connected.elapsed()).max(1)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_lasts_from_the_first_command_to_the_first_reply() {
        let silence = ConnectionSilence::new();
        assert!(!silence.is_to_be_checked(Duration::ZERO), "nothing was asked");
        assert!(silence.is_idle(Duration::ZERO) && !silence.has_answered());
        silence.sent();
        assert!(!silence.is_idle(Duration::ZERO), "it is being asked");
        assert!(!silence.is_to_be_checked(Duration::from_secs(3_600)), "not for that long");
        silence.sent();
        assert!(silence.is_to_be_checked(Duration::ZERO));
        assert!(!silence.is_to_be_checked(Duration::ZERO), "one check at a time");
        silence.checked();
        assert!(!silence.is_to_be_checked(Duration::ZERO), "it has answered");
        silence.sent();
        silence.heard();
        assert!(silence.is_idle(Duration::ZERO) && silence.has_answered());
        assert!(!silence.is_idle(Duration::from_secs(3_600)), "not for that long");
        assert!(!silence.is_to_be_checked(Duration::ZERO), "it has answered");
        silence.sent();
        assert!(silence.is_to_be_checked(Duration::ZERO));
    }
}
