//! What a client has queued between `MULTI` and `EXEC`, within bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most commands of one transaction.
const MAX_COMMANDS: usize = 10_000;
/// The most bytes of the commands of one transaction.
const MAX_BYTES: usize = 1024 * 1024;
/// The most bytes of all transactions that are queued on one event loop.
const MAX_BYTES_OF_ALL: usize = 64 * 1024 * 1024;
/// The bytes that every transaction may have, however much the others have queued.
const ALWAYS: usize = 16 * 1024;
/// The most keys that one transaction forgets: each is looked for under every plan.
const MAX_RESETS: usize = 64;

/// What a client has queued since `MULTI`.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The commands, one after the other, as they came.
    pub(super) commands: Vec<u8>,
    pub(super) count: usize,
    resets: usize,
    /// The bytes that it holds of `of_all`.
    counted: usize,
    /// True if a command was wrong, so that none will be executed.
    pub(super) is_aborted: bool,
    /// Bytes that all transactions of the event loop hold.
    of_all: Arc<AtomicUsize>,
}

impl Transaction {
    pub(super) fn new(of_all: &Arc<AtomicUsize>) -> Self {
        let of_all = Arc::clone(of_all);
        Transaction { commands: Vec::new(), count: 0, resets: 0, counted: 0, is_aborted: false, of_all }
    }

    /// Keeps a command for `EXEC`. The error says why there is no room for it.
    pub(super) fn push(&mut self, command: &[u8], is_reset: bool) -> Result<(), String> {
        // As in Redis: none will be executed, so none is kept.
        if self.is_aborted {
            return Ok(());
        }
        if self.count >= MAX_COMMANDS {
            return Err(format!("a transaction has at most {MAX_COMMANDS} commands"));
        }
        if self.commands.len() + command.len() > MAX_BYTES {
            return Err(format!("the commands of a transaction have at most {MAX_BYTES} bytes"));
        }
        if is_reset && self.resets >= MAX_RESETS {
            return Err(format!("a transaction has at most {MAX_RESETS} RESET commands"));
        }
        let is_full = self.of_all.load(Ordering::Relaxed) + command.len() > MAX_BYTES_OF_ALL;
        if is_full && self.counted + command.len() > ALWAYS {
            return Err(format!(
                "the transactions of all clients have at most {MAX_BYTES_OF_ALL} bytes; try again"
            ));
        }
        self.of_all.fetch_add(command.len(), Ordering::Relaxed);
        self.counted += command.len();
        self.commands.extend_from_slice(command);
        self.count += 1;
        self.resets += usize::from(is_reset);
        Ok(())
    }

    /// Drops what was queued, and keeps no more: nothing of it will be executed.
    pub(super) fn abort(&mut self) {
        *self = Transaction::new(&self.of_all);
        self.is_aborted = true;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_is_bounded_and_given_back_at_once() {
        let of_all = Arc::default();
        let mut transaction = Transaction::new(&of_all);
        let kib = [b'x'; 1024];
        for _ in 0..MAX_BYTES / kib.len() {
            transaction.push(&kib, false).unwrap();
        }
        let full = transaction.push(b"x", false).unwrap_err();
        assert_eq!(full, "the commands of a transaction have at most 1048576 bytes");
        assert_eq!(of_all.load(Ordering::Relaxed), MAX_BYTES);
        transaction.abort();
        assert_eq!((of_all.load(Ordering::Relaxed), transaction.commands.capacity()), (0, 0));
        assert_eq!(transaction.push(b"x", false), Ok(()), "and not kept");
        assert_eq!(transaction.commands.capacity(), 0);

        let mut many = Transaction::new(&of_all);
        for index in 0..MAX_COMMANDS {
            many.push(b"x", index < MAX_RESETS).unwrap();
        }
        assert_eq!(many.push(b"x", false).unwrap_err(), "a transaction has at most 10000 commands");
        drop(many);
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_small_transaction_is_taken_however_much_others_have_queued() {
        let of_all = Arc::new(AtomicUsize::new(MAX_BYTES_OF_ALL));
        let mut small = Transaction::new(&of_all);
        for _ in 0..ALWAYS / 64 {
            small.push(&[b'x'; 64], false).unwrap();
        }
        let refused = small.push(b"x", false).unwrap_err();
        assert!(
            refused.starts_with("the transactions of all clients have at most 67108864 bytes"),
            "{refused}"
        );
        drop(small);
        assert_eq!(of_all.load(Ordering::Relaxed), MAX_BYTES_OF_ALL);
    }

    #[test]
    fn only_so_many_keys_are_forgotten_at_once() {
        let mut transaction = Transaction::new(&Arc::default());
        for _ in 0..MAX_RESETS {
            transaction.push(b"RESET k", true).unwrap();
        }
        let refused = transaction.push(b"RESET k", true).unwrap_err();
        assert_eq!(refused, "a transaction has at most 64 RESET commands");
        assert_eq!(transaction.push(b"PING", false), Ok(()));
    }
}
