//! Commands to replies, in the order in which they came.
//!
//! Throttles wait until something else comes, or nothing more: then all of them are decided as one batch, with one
//! look at the clock and their states fetched from memory while the ones before are decided.

use std::sync::Arc;
use std::time::Instant;

use ratekeeper::port::Request;
use ratekeeper::{Cost, Decision, Key, Quota, Rules, StoreError};

use super::buffers::{Buffers, Waiting};
use super::catalogue::{self, Command, Entry};
use super::frame::{Args, MAX_ARGS, Parser, Step};
use super::plans::Verb;
use super::reply::{Reply, escaped};
use super::session::Session;
use super::throttle::{Amount, Dialect};
use super::{Resp, info, plans, session};

/// Replies that are gathered before they are sent.
const HIGH_WATER: usize = 16 * 1024;
/// The most requests of one batch.
const MAX_BATCH: usize = 512;

/// One client's side of the server, without its socket.
#[derive(Debug)]
pub(super) struct Conversation {
    resp: Arc<Resp>,
    parser: Parser,
    session: Session,
    answered: bool,
}

/// How an attempt to answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All complete commands are answered.
    Starved,
    /// The replies must be sent before there can be more.
    Full,
    /// The client said goodbye: send the replies and close.
    Quit,
    /// The client does not speak the protocol: send the replies and close.
    Broken,
}

/// A throttle that was understood.
enum Asked {
    Take(Waiting),
    Refund(Waiting),
}

impl Conversation {
    pub(super) fn new(resp: Arc<Resp>, id: u64) -> Self {
        let session = Session::new(id, resp.secret.is_some());
        Conversation { resp, parser: Parser::default(), session, answered: false }
    }

    /// True while a command is incomplete.
    pub(super) fn is_midway(&self) -> bool {
        self.parser.is_midway()
    }

    /// True if a command was completed since the last time of asking.
    pub(super) fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }

    /// Answers the commands in the buffer.
    pub(super) async fn answer(&mut self, buffers: &mut Buffers) -> Progress {
        let end = loop {
            if buffers.output.len() >= HIGH_WATER {
                break Progress::Full;
            }
            match self.parser.step(buffers.unread()) {
                Step::Command(len) => {
                    self.answered = true;
                    let quits = self.command(buffers).await;
                    buffers.consume(len);
                    if quits {
                        break Progress::Quit;
                    }
                }
                Step::Incomplete => break Progress::Starved,
                Step::Malformed(error) => {
                    self.decide(buffers).await;
                    self.reply(&mut buffers.output).error(&format!("ERR Protocol error: {error}"));
                    break Progress::Broken;
                }
            }
        };
        self.decide(buffers).await;
        end
    }

    /// Answers one command, or has it wait for its batch. True if it is the last.
    #[inline]
    async fn command(&mut self, buffers: &mut Buffers) -> bool {
        let args = self.parser.args();
        if args.is_empty() {
            return false;
        }
        let (input, base) = (buffers.input(), buffers.start());
        let entry = catalogue::find(&input[args.range(0, base)]);
        let dialect = match entry.map(Entry::command) {
            Some(Command::Throttle) => Some(Dialect::Throttle),
            Some(Command::ClThrottle) => Some(Dialect::Cell),
            _ => None,
        };
        if let Some(dialect) = dialect
            && self.session.authenticated
        {
            match self.throttle(dialect, buffers) {
                Ok(Asked::Take(waiting)) => {
                    buffers.waiting.push(waiting);
                    if buffers.waiting.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                Ok(Asked::Refund(waiting)) => {
                    self.decide(buffers).await;
                    Box::pin(self.refund(buffers, waiting)).await;
                }
                Err(message) => {
                    self.resp.meter.failed();
                    self.decide(buffers).await;
                    self.reply(&mut buffers.output).error(&format!("ERR {message}"));
                }
            }
            return false;
        }
        self.decide(buffers).await;
        if let Some(entry) = entry
            && let Command::Plans(verb) = entry.command()
            && entry.takes(args.len())
            && self.session.authenticated
        {
            // In a box: what is kept across this wait would otherwise be room in every idle connection.
            Box::pin(self.plans(verb, buffers)).await;
            return false;
        }
        self.other(entry, buffers)
    }

    /// Understands a throttle, without waiting for anything: what it needs for that is not kept.
    #[inline]
    fn throttle(&self, dialect: Dialect, buffers: &Buffers) -> Result<Asked, String> {
        let (args, base) = (self.parser.args(), buffers.start());
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(args, buffers.input(), base, &mut words);
        let (_, ask) = dialect.parse(&words[1..], self.resp.engine.limits())?;
        let (key, quota) = (args.range(1, base), ask.quota);
        Ok(match ask.amount {
            Amount::Take(cost) => Asked::Take(Waiting { key, quota, cost, dialect }),
            Amount::Refund(cost) => Asked::Refund(Waiting { key, quota, cost, dialect }),
        })
    }

    /// A request by the names of plans.
    async fn plans(&self, verb: Verb, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        plans::answer(&self.resp, verb, &words[1..], &mut self.reply(&mut out)).await;
        buffers.output = out;
    }

    /// Everything that is not about a quota.
    #[cold]
    fn other(&mut self, entry: Option<&'static Entry>, buffers: &mut Buffers) -> bool {
        // The output is taken out for the moment, because the words are borrowed from the same buffers.
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        let quits = respond(&self.resp, &mut self.session, entry, words, &mut out);
        buffers.output = out;
        quits
    }

    /// Decides what waits, and answers it.
    #[inline]
    async fn decide(&self, buffers: &mut Buffers) {
        if buffers.waiting.is_empty() {
            return;
        }
        let began = Instant::now();
        let mut decisions = std::mem::take(&mut buffers.decisions);
        let waiting = std::mem::take(&mut buffers.waiting);
        let result = self.ask(&waiting, buffers.input(), &mut decisions).await;
        let allowed = decisions.iter().filter(|decision| decision.allowed).count();
        let denied = decisions.len() - allowed;
        self.resp.meter.decided(allowed as u64, denied as u64, began.elapsed());
        let mut reply = self.reply(&mut buffers.output);
        for (waiting, decision) in waiting.iter().zip(&decisions) {
            reply.five(waiting.dialect.answer(decision));
        }
        // Whatever was not decided is answered too: replies are matched by their number.
        if let Err(error) = result {
            for _ in decisions.len()..waiting.len() {
                self.resp.meter.failed();
                reply.error(&format!("ERR store: {error}"));
            }
        }
        (buffers.waiting, buffers.decisions) = (waiting, decisions);
        buffers.waiting.clear();
        buffers.decisions.clear();
    }

    #[inline]
    async fn ask(
        &self,
        waiting: &[Waiting],
        input: &[u8],
        into: &mut Vec<Decision>,
    ) -> Result<(), StoreError> {
        let store = self.resp.engine.store();
        if let [only] = waiting {
            if let Some(request) = request(&only.quota, only.cost, &input[only.key.clone()]) {
                into.push(store.acquire(request).await?);
            }
            return Ok(());
        }
        let requests: Vec<Request<'_>> = waiting
            .iter()
            .filter_map(|waiting| request(&waiting.quota, waiting.cost, &input[waiting.key.clone()]))
            .collect();
        store.acquire_many(&requests, into).await
    }

    #[cold]
    #[inline(never)]
    async fn refund(&self, buffers: &mut Buffers, waiting: Waiting) {
        let key = &buffers.input()[waiting.key.clone()];
        let Some(request) = request(&waiting.quota, waiting.cost, key) else { return };
        let result = self.resp.engine.store().refund(request).await;
        let mut reply = self.reply(&mut buffers.output);
        match result {
            Ok(decision) => reply.five(waiting.dialect.answer(&decision)),
            Err(error) => reply.error(&format!("ERR store: {error}")),
        }
    }

    fn reply<'a>(&self, out: &'a mut Vec<u8>) -> Reply<'a> {
        Reply::new(out, self.session.version)
    }
}

/// The key was found to be one when its command was read, so this is always a request.
#[inline]
fn request<'a>(quota: &'a Quota, cost: Cost, key: &'a [u8]) -> Option<Request<'a>> {
    let key = Key::new(key).ok()?;
    Some(Request { key, rules: Rules::Quota(quota), cost })
}

/// The arguments as slices.
#[inline]
fn spread<'w, 'a>(
    args: &Args,
    input: &'a [u8],
    base: usize,
    words: &'w mut [&'a [u8]; MAX_ARGS],
) -> &'w [&'a [u8]] {
    for (index, word) in words.iter_mut().take(args.len()).enumerate() {
        *word = &input[args.range(index, base)];
    }
    &words[..args.len()]
}

/// Answers a command that needs no store. True if it is the last.
fn respond(
    resp: &Resp,
    session: &mut Session,
    entry: Option<&'static Entry>,
    words: &[&[u8]],
    out: &mut Vec<u8>,
) -> bool {
    let mut reply = Reply::new(out, session.version);
    let Some(entry) = entry else {
        let name = words.first().copied().unwrap_or_default();
        reply.error(&format!("ERR unknown command '{}'", escaped(name)));
        return false;
    };
    if !entry.takes(words.len()) {
        reply.error(&format!("ERR wrong number of arguments for '{}' command", entry.name()));
        return false;
    }
    let open = matches!(entry.command(), Command::Auth | Command::Hello | Command::Quit);
    if !session.authenticated && !open {
        reply.error("NOAUTH Authentication required.");
        return false;
    }
    let args = &words[1..];
    match (entry.command(), args) {
        (Command::Ping, []) => reply.simple("PONG"),
        (Command::Ping | Command::Echo, [message]) => reply.bulk(message),
        (Command::Quit, _) => {
            reply.ok();
            return true;
        }
        (Command::Auth, _) => session.auth(args, resp.secret.as_ref(), out),
        (Command::Hello, _) => session.hello(args, resp.secret.as_ref(), out),
        (Command::Select, [index]) => session::select(index, &mut reply),
        (Command::Client, _) => session.client(args, out),
        (Command::Catalogue, _) => catalogue::answer(args, &mut reply),
        (Command::Config, _) => session::config(args, &mut reply),
        (Command::Info, _) => reply.bulk(info::render(&resp.engine, &resp.places, args).as_bytes()),
        _ => reply.error(&format!("ERR wrong number of arguments for '{}' command", entry.name())),
    }
    false
}
