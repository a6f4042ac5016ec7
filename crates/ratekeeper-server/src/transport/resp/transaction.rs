//! `MULTI`, `EXEC` and `DISCARD`: commands that are queued, and then decided as one batch.
//!
//! Stock clients wrap their pipelines in these by default. A queued command is kept as the bytes that it came as, and
//! read again when it is executed: it means then what it would have meant without a transaction.
//!
//! Only commands that are short work are taken: what waits for something else than the store (`AUTH`), or is long work
//! with a long reply (`INFO`), would hold up the others of the event loop, or be held in memory, ten thousand times over.
//!
//! What a transaction promises: its commands are decided in their order, and nothing that another client of the same
//! event loop asks is decided between them, as long as the store is in this process. Clients of other event loops, and
//! other servers on the same Redis, may be decided between two of them. Nothing is undone: a command that is denied
//! takes nothing, and the others take what they ask for.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;

use super::catalogue::{self, Command, Entry};
use super::conversation::{Conversation, is_connection_reset};
use super::frame::Step;
use super::plans::{self, Verb};
use super::reply::Reply;
use super::session;
use crate::stream::{Buffers, Dialect, MAX_BATCH, Progress};

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

/// The answer to `WATCH`. Promising what is not kept would be worse than a refusal.
pub(super) const WATCH_REFUSED: &str = "ERR WATCH is not supported: no key can be read here and written later, because a decision does \
     both in one step; send the commands without WATCH";

/// What a client has queued since `MULTI`.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The commands, one after the other, as they came.
    commands: Vec<u8>,
    count: usize,
    resets: usize,
    /// Bytes that it is counted with, until it is over.
    counted: usize,
    /// A command was wrong, so none will be executed.
    is_aborted: bool,
    /// Bytes that all transactions of the event loop hold.
    of_all: Arc<AtomicUsize>,
}

impl Transaction {
    pub(super) fn new(of_all: &Arc<AtomicUsize>) -> Self {
        let of_all = Arc::clone(of_all);
        Transaction { commands: Vec::new(), count: 0, resets: 0, counted: 0, is_aborted: false, of_all }
    }

    /// Keeps a command for `EXEC`, unless there is no room for it.
    fn push(&mut self, command: &[u8], is_reset: bool) -> Result<(), String> {
        // As in Redis: it will not be executed, so it need not be kept.
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

    /// Nothing of it will be executed, so nothing of it is kept.
    fn abort(&mut self) {
        *self = Transaction::new(&self.of_all);
        self.is_aborted = true;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Conversation {
    /// Takes a command between `MULTI` and `EXEC`, and tells how it ends if it is the last of this connection.
    pub(super) async fn queue(&mut self, buffers: &mut Buffers, len: usize) -> Option<Progress> {
        let (words, base) = (self.parser.args().len(), buffers.start());
        if words == 0 {
            return None;
        }
        let word = |index| &buffers.input()[self.parser.args().range(index, base)];
        let entry = catalogue::find(word(0));
        let is_complete = entry.is_some_and(|entry| {
            entry.takes(words) && (words < 2 || session::knows(entry.command(), word(1), words - 2))
        });
        match entry.map(Entry::command) {
            Some(Command::Exec) if is_complete => self.execute(buffers).await,
            Some(Command::Exec) => {
                self.session.transaction = None;
                self.other(entry, buffers);
            }
            Some(Command::Discard) if is_complete => {
                self.session.transaction = None;
                self.reply(&mut buffers.output).ok();
            }
            Some(Command::Multi) if is_complete => {
                self.reply(&mut buffers.output).error("ERR MULTI calls can not be nested");
            }
            Some(Command::Watch) if is_complete => {
                self.reply(&mut buffers.output).error("ERR WATCH inside MULTI is not allowed");
            }
            Some(Command::Quit) => return self.other(entry, buffers),
            Some(Command::Plans(verb)) if is_connection_reset(verb, words) => {
                return self.other(entry, buffers);
            }
            _ => match entry.filter(|_| is_complete) {
                Some(entry) => self.keep(entry, words, buffers, len),
                None => {
                    // Says what is wrong with it, and does nothing else.
                    self.other(entry, buffers);
                    self.abort();
                }
            },
        }
        None
    }

    /// Queues a command, and says so.
    fn keep(&mut self, entry: &Entry, words: usize, buffers: &mut Buffers, len: usize) {
        let limits = self.resp.engine.limits();
        let wrong = match entry.command() {
            Command::Throttle => Dialect::Throttle.arity_error(words - 1, limits),
            Command::ClThrottle => Dialect::Cell.arity_error(words - 1, limits),
            Command::Auth | Command::Hello | Command::Forget | Command::Info | Command::Catalogue => {
                let name = entry.name().to_ascii_uppercase();
                Some(format!(
                    "Command not allowed inside a transaction: send {name} before MULTI or after EXEC"
                ))
            }
            _ => None,
        };
        let is_reset = entry.command() == Command::Plans(Verb::Reset);
        let kept = match (wrong, &mut self.session.transaction) {
            (Some(message), _) => Err(message),
            (None, Some(transaction)) => transaction.push(&buffers.unread()[..len], is_reset),
            (None, None) => Ok(()),
        };
        match kept {
            Ok(()) => self.reply(&mut buffers.output).simple("QUEUED"),
            Err(message) => {
                self.resp.meter.failed();
                self.reply(&mut buffers.output).error(&format!("ERR {message}"));
                self.abort();
            }
        }
    }

    fn abort(&mut self) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.abort();
        }
    }

    /// Executes what was queued, and answers it as one array.
    async fn execute(&mut self, buffers: &mut Buffers) {
        // Held until the end: so long its bytes are counted.
        let Some(mut transaction) = self.session.transaction.take() else { return };
        // The client has done its part, however long the store takes.
        self.connection.settled();
        if transaction.is_aborted {
            let message = "EXECABORT Transaction discarded because of previous errors.";
            return self.reply(&mut buffers.output).error(message);
        }
        self.reply(&mut buffers.output).array(transaction.count);
        let mut batch = Buffers::over(std::mem::take(&mut transaction.commands));
        batch.output = std::mem::take(&mut buffers.output);
        let mut planned = Vec::new();
        // Whatever was queued was complete, and the parser is between two commands.
        while let Step::Command(len) = self.parser.step(batch.unread()) {
            match self.planned(&batch) {
                Some(next) => {
                    if planned.len() >= MAX_BATCH {
                        self.decide_planned(&mut planned, &mut batch).await;
                    }
                    planned.push(next);
                }
                None => {
                    self.decide_planned(&mut planned, &mut batch).await;
                    self.command(&mut batch, len).await;
                }
            }
            batch.consume(len);
        }
        self.decide_planned(&mut planned, &mut batch).await;
        self.decide(&mut batch).await;
        buffers.output = batch.output;
    }

    /// The command that was just read, if it names plans and a store elsewhere is to be asked: many such are asked
    /// for at once. A store in this process answers each when it is asked.
    fn planned(&self, batch: &Buffers) -> Option<Planned> {
        if self.resp.engine.memory().is_some() {
            return None;
        }
        let (args, base) = (self.parser.args(), batch.start());
        match catalogue::find(&batch.input()[args.range(0, base)])?.command() {
            Command::Plans(verb) if args.len() > 1 => {
                Some(Planned { verb, words: (1..args.len()).map(|index| args.range(index, base)).collect() })
            }
            _ => None,
        }
    }

    /// Asks for as many at once as there are different keys in a row, and waits for them: questions that are under way
    /// together may be decided in any order.
    async fn decide_planned(&self, planned: &mut Vec<Planned>, batch: &mut Buffers) {
        if planned.is_empty() {
            return;
        }
        // Throttles that were queued before.
        self.decide(batch).await;
        let mut out = std::mem::take(&mut batch.output);
        let mut rest = planned.as_slice();
        while !rest.is_empty() {
            let mut seen = HashSet::new();
            let different = rest.iter().take_while(|next| seen.insert(next.key(batch.input()))).count();
            let (wave, later) = rest.split_at(different);
            let answers = wave.iter().map(|next| next.answer(self, batch.input()));
            join_all(answers).await.iter().for_each(|answer| out.extend_from_slice(answer));
            rest = later;
        }
        planned.clear();
        batch.output = out;
    }
}

/// A command by the names of plans: where its arguments are.
struct Planned {
    verb: Verb,
    words: Vec<Range<usize>>,
}

impl Planned {
    fn key<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        self.words.first().map_or(&[], |key| &input[key.clone()])
    }

    async fn answer(&self, conversation: &Conversation, input: &[u8]) -> Vec<u8> {
        let words: Vec<&[u8]> = self.words.iter().map(|word| &input[word.clone()]).collect();
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, conversation.session.version);
        plans::answer(&conversation.resp, self.verb, &words, &mut reply).await;
        out
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
