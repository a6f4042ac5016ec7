//! `MULTI`, `EXEC` and `DISCARD`: commands that are queued, and then decided as one batch.
//!
//! Stock clients wrap their pipelines in these by default. A queued command is kept as the bytes that it came as, and
//! read again when it is executed: it means then what it would have meant without a transaction.
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
use crate::stream::{Buffers, Dialect, MAX_BATCH};

/// The most commands of one transaction.
const MAX_COMMANDS: usize = 10_000;
/// The most bytes of the commands of one transaction.
const MAX_BYTES: usize = 1024 * 1024;
/// The most bytes of all transactions that are queued on one event loop.
const MAX_BYTES_OF_ALL: usize = 64 * 1024 * 1024;
/// The most bytes of replies after which commands are still answered that decide nothing: `COMMAND DOCS` is three
/// hundred times as long as its question, and replies of a transaction are kept until it ends.
const MAX_REPLIES: usize = 4 * 1024 * 1024;

/// The answer to `WATCH`. Promising what is not kept would be worse than a refusal.
pub(super) const WATCH_REFUSED: &str = "ERR WATCH is not supported: no key can be read here and written later, because a decision does \
     both in one step; send the commands without WATCH";

/// What a client has queued since `MULTI`.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The commands, one after the other, as they came.
    commands: Vec<u8>,
    count: usize,
    /// A command was wrong, so none will be executed.
    is_aborted: bool,
    /// Bytes that all transactions of the event loop hold.
    of_all: Arc<AtomicUsize>,
}

impl Transaction {
    pub(super) fn new(of_all: &Arc<AtomicUsize>) -> Self {
        Transaction { commands: Vec::new(), count: 0, is_aborted: false, of_all: Arc::clone(of_all) }
    }

    /// Keeps a command for `EXEC`, unless there is no room for it.
    fn push(&mut self, command: &[u8]) -> Result<(), String> {
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
        if self.of_all.fetch_add(command.len(), Ordering::Relaxed) + command.len() > MAX_BYTES_OF_ALL {
            self.of_all.fetch_sub(command.len(), Ordering::Relaxed);
            return Err(format!(
                "the transactions of all clients have at most {MAX_BYTES_OF_ALL} bytes; try again"
            ));
        }
        self.commands.extend_from_slice(command);
        self.count += 1;
        Ok(())
    }

    /// Nothing of it will be executed, so nothing of it is kept.
    fn abort(&mut self) {
        self.is_aborted = true;
        self.count = 0;
        drop(self.take());
    }

    /// The commands, which are no longer counted.
    fn take(&mut self) -> Vec<u8> {
        let commands = std::mem::take(&mut self.commands);
        self.of_all.fetch_sub(commands.len(), Ordering::Relaxed);
        commands
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl Conversation {
    /// Takes a command between `MULTI` and `EXEC`. True if it is the last of this connection.
    pub(super) async fn queue(&mut self, buffers: &mut Buffers, len: usize) -> bool {
        let (words, base) = (self.parser.args().len(), buffers.start());
        if words == 0 {
            return false;
        }
        let entry = catalogue::find(&buffers.input()[self.parser.args().range(0, base)]);
        let is_complete = entry.is_some_and(|entry| entry.takes(words));
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
            Some(command) if is_complete => self.keep(command, words, buffers, len),
            _ => {
                // Says what is wrong with it, and does nothing else.
                self.other(entry, buffers);
                self.abort();
            }
        }
        false
    }

    /// Queues a command, and says so.
    fn keep(&mut self, command: Command, words: usize, buffers: &mut Buffers, len: usize) {
        let limits = self.resp.engine.limits();
        let wrong = match command {
            Command::Throttle => Dialect::Throttle.arity_error(words - 1, limits),
            Command::ClThrottle => Dialect::Cell.arity_error(words - 1, limits),
            _ => None,
        };
        let kept = match (wrong, &mut self.session.transaction) {
            (Some(message), _) => Err(message),
            (None, Some(transaction)) => transaction.push(&buffers.unread()[..len]),
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
        let Some(mut transaction) = self.session.transaction.take() else { return };
        if transaction.is_aborted {
            let message = "EXECABORT Transaction discarded because of previous errors.";
            return self.reply(&mut buffers.output).error(message);
        }
        self.reply(&mut buffers.output).array(transaction.count);
        let mut batch = Buffers::over(transaction.take());
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
                    self.execute_one(&mut batch, len).await;
                }
            }
            batch.consume(len);
        }
        self.decide_planned(&mut planned, &mut batch).await;
        self.decide(&mut batch).await;
        buffers.output = batch.output;
    }

    async fn execute_one(&mut self, batch: &mut Buffers, len: usize) {
        let name = self.parser.args().range(0, batch.start());
        let command = catalogue::find(&batch.input()[name]).map(Entry::command);
        let decides = matches!(command, Some(Command::Throttle | Command::ClThrottle | Command::Plans(_)));
        if !decides && batch.output.len() > MAX_REPLIES {
            self.decide(batch).await;
            let message = format!("ERR the replies of a transaction have at most {MAX_REPLIES} bytes");
            return self.reply(&mut batch.output).error(&message);
        }
        self.command(batch, len).await;
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
            transaction.push(&kib).unwrap();
        }
        let full = transaction.push(b"x").unwrap_err();
        assert_eq!(full, "the commands of a transaction have at most 1048576 bytes");
        assert_eq!(of_all.load(Ordering::Relaxed), MAX_BYTES);
        transaction.abort();
        assert_eq!((of_all.load(Ordering::Relaxed), transaction.commands.capacity()), (0, 0));
        assert_eq!(transaction.push(b"x"), Ok(()), "and not kept");
        assert_eq!(transaction.commands.capacity(), 0);

        let mut many = Transaction::new(&of_all);
        for _ in 0..MAX_COMMANDS {
            many.push(b"x").unwrap();
        }
        assert_eq!(many.push(b"x").unwrap_err(), "a transaction has at most 10000 commands");
        drop(many);
        of_all.store(MAX_BYTES_OF_ALL, Ordering::Relaxed);
        let refused = Transaction::new(&of_all).push(b"x").unwrap_err();
        assert!(
            refused.starts_with("the transactions of all clients have at most 67108864 bytes"),
            "{refused}"
        );
        assert_eq!(of_all.load(Ordering::Relaxed), MAX_BYTES_OF_ALL);
    }
}
