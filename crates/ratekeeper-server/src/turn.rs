//! How much is done for one connection before the others of its event loop have their turn.
//!
//! An event loop serves whoever is ready until it has to wait. One client that always has more to ask would be served
//! for megabytes on end, and whoever shares its loop would wait for all of it.

use std::pin::pin;
use std::task::{Context, Poll};

/// Bytes, read and written, of one turn: some hundred decisions, a tenth of a millisecond.
const TURN: usize = 32 * 1024;

/// What was done for a connection since it last waited.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    spent: usize,
}

impl Turn {
    /// So many bytes were read, written, or are what some other work is worth.
    #[inline]
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// The connection had nothing to do, so others had their turn.
    #[inline]
    pub(crate) fn waited(&mut self) {
        self.spent = 0;
    }

    /// True once others are to have their turn. The next one begins with this.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        let is_over = self.spent >= TURN;
        if is_over {
            self.spent = 0;
        }
        is_over
    }

    /// Ends a poll if the turn is over: pending, and to be polled again when the others were, those included whose
    /// bytes are only now looked for.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        // Not merely woken: a task that wakes itself is polled many times before the loop looks at its sockets.
        let yielded = pin!(tokio::task::yield_now());
        let polled = yielded.poll(context);
        debug_assert!(polled.is_pending(), "the first poll defers");
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_unless_the_connection_waits() {
        let mut turn = Turn::default();
        turn.spend(TURN - 1);
        assert!(!turn.is_over());
        turn.waited();
        turn.spend(TURN - 1);
        assert!(!turn.is_over());
        turn.spend(1);
        assert!(turn.is_over());
        assert!(!turn.is_over(), "and another begins");
    }
}
