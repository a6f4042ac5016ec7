//! Commands to replies, in the order in which they came.
//!
//! Throttles wait until something else comes, or nothing more: then all of them are decided as one batch.

use std::sync::Arc;
use std::time::Instant;

use super::catalogue::{self, Command, Entry};
use super::frame::{Args, LINE_END, MAX_ARGS, Parser, Step, short_bulk};
use super::plans::Verb;
use super::reply::{Reply, escaped};
use super::session::Session;
use super::throttle::Amount;
use super::transaction::{Transaction, WATCH_REFUSED};
use super::{NAME, Resp, forget, info, plans, session};
use crate::guesses::Check;
use crate::server::Connection;
use crate::stream::{self, Buffers, Dialect, HIGH_WATER, MAX_BATCH, Progress, Waiting};

/// The most commands of one turn that look at every shard or plan, or have replies of kilobytes.
const MAX_COSTLY: u8 = 16;

/// One client's side of the server, without its socket.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) resp: Arc<Resp>,
    pub(super) parser: Parser,
    pub(super) session: Session,
    pub(super) connection: Arc<Connection>,
    answered: bool,
    /// It has waited before the token that comes next is looked at.
    has_paused: bool,
    /// Commands of this turn that cost far more than their bytes show.
    costly: u8,
}

/// A throttle that was understood.
enum Asked {
    Take(Waiting),
    Refund(Waiting),
}

impl Conversation {
    pub(super) fn new(resp: Arc<Resp>, connection: Arc<Connection>) -> Self {
        let session = Session::new(connection.id(), resp.tokens.are_needed());
        let parser = Parser::default();
        Conversation { resp, parser, session, connection, answered: false, has_paused: false, costly: 0 }
    }

    /// Answers one command, or has it wait for its batch. Tells why, if no other can be answered now.
    #[inline]
    pub(super) async fn command(&mut self, buffers: &mut Buffers, len: usize) -> Option<Progress> {
        let args = self.parser.args();
        if args.is_empty() {
            return None;
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
                    // The name, the key and three numbers: nothing is left to the configuration. What is not an array
                    // does not tell the key's length.
                    if args.len() >= 5 && buffers.unread().first() == Some(&b'*') {
                        let head = args.range(0, 0).end + LINE_END.len();
                        buffers.remember(len, head, short_bulk, &waiting);
                    }
                    buffers.waiting.push(waiting);
                    if buffers.waiting.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                // In boxes: what is kept across these waits would otherwise be room in every idle connection.
                Ok(Asked::Refund(waiting)) => Box::pin(self.refund(buffers, waiting)).await,
                Err(message) => Box::pin(self.refuse(buffers, message)).await,
            }
            return None;
        }
        self.decide(buffers).await;
        if let Some(entry) = entry
            && let Command::Plans(verb) = entry.command()
            && entry.takes(args.len())
            && !is_connection_reset(verb, args.len())
            && self.session.authenticated
        {
            if verb == Verb::Reset {
                self.costly = self.costly.saturating_add(1);
            }
            // In a box: what is kept across this wait would otherwise be room in every idle connection.
            Box::pin(self.plans(verb, buffers)).await;
            return None;
        }
        if let Some(entry) = entry
            && entry.command() == Command::Forget
            && entry.takes(args.len())
            && self.session.authenticated
        {
            self.costly = MAX_COSTLY;
            Box::pin(self.forget(buffers)).await;
            return None;
        }
        let is_guess = match entry.map(Entry::command) {
            Some(Command::Auth) => true,
            // Its version, `AUTH`, a user and a token.
            Some(Command::Hello) => args.len() >= 5,
            _ => false,
        };
        let has_paused = is_guess && std::mem::take(&mut self.has_paused);
        if is_guess && !has_paused && check(&self.resp, &self.connection).must_wait() {
            return Some(Progress::Guess);
        }
        self.other(entry, buffers)
    }

    /// Understands a throttle, without waiting for anything: what it needs for that is not kept.
    #[inline]
    fn throttle(&self, dialect: Dialect, buffers: &Buffers) -> Result<Asked, String> {
        let (args, base) = (self.parser.args(), buffers.start());
        // A throttle has six words; one more shows that there are too many.
        let mut words = [&[][..]; 7];
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

    /// Many keys are to be forgotten.
    async fn forget(&self, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        forget::answer(&self.resp, self.session.role, &words[1..], &mut self.reply(&mut out)).await;
        buffers.output = out;
    }

    /// Everything that is not about a quota.
    #[cold]
    pub(super) fn other(&mut self, entry: Option<&'static Entry>, buffers: &mut Buffers) -> Option<Progress> {
        // The output is taken out for the moment, because the words are borrowed from the same buffers.
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        if matches!(entry.map(Entry::command), Some(Command::Info | Command::Catalogue)) {
            self.costly = self.costly.saturating_add(1);
        }
        let quits = respond(&self.resp, &self.connection, &mut self.session, entry, words, &mut out);
        buffers.output = out;
        quits.then_some(Progress::Quit)
    }

    /// Decides what waits, and answers it.
    #[inline]
    pub(super) async fn decide(&self, buffers: &mut Buffers) {
        let version = self.session.version;
        stream::decide(&self.resp.engine, &self.resp.meter, buffers, |out, waiting, decided| {
            let mut reply = Reply::new(out, version);
            match decided {
                Ok(decision) => reply.five(waiting.dialect.answer(decision)),
                Err(error) => reply.error(&format!("ERR store: {error}")),
            }
        })
        .await;
    }

    #[cold]
    #[inline(never)]
    async fn refund(&self, buffers: &mut Buffers, waiting: Waiting) {
        self.decide(buffers).await;
        let Some(request) = waiting.request(buffers.input()) else { return };
        let began = Instant::now();
        let result = self.resp.engine.refund(request.key, &waiting.quota, request.cost).await;
        let mut reply = self.reply(&mut buffers.output);
        match result {
            Ok(decision) => {
                self.resp.meter.looked(&decision, began.elapsed());
                reply.five(waiting.dialect.answer(&decision));
            }
            Err(error) => {
                self.resp.meter.failed();
                reply.error(&format!("ERR store: {error}"));
            }
        }
    }

    #[cold]
    #[inline(never)]
    async fn refuse(&self, buffers: &mut Buffers, message: String) {
        self.resp.meter.failed();
        self.decide(buffers).await;
        self.reply(&mut buffers.output).error(&format!("ERR {message}"));
    }

    pub(super) fn reply<'a>(&self, out: &'a mut Vec<u8>) -> Reply<'a> {
        Reply::new(out, self.session.version)
    }
}

impl stream::Conversation for Conversation {
    /// True while a command is incomplete, or a transaction is.
    fn is_midway(&self) -> bool {
        self.parser.is_midway() || self.session.transaction.is_some()
    }

    /// True if a command was completed since the last time of asking.
    fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }

    /// Answers the commands in the buffer.
    async fn answer(&mut self, buffers: &mut Buffers) -> Progress {
        self.costly = 0;
        let end = loop {
            if buffers.output.len() >= HIGH_WATER {
                break Progress::Full;
            }
            if self.costly >= MAX_COSTLY {
                break Progress::Paused;
            }
            if !self.parser.is_midway() && self.session.takes_requests() && buffers.take_repeated() {
                self.answered = true;
                if buffers.waiting.len() >= MAX_BATCH {
                    self.decide(buffers).await;
                }
                continue;
            }
            match self.parser.step(buffers.unread()) {
                Step::Command(len) => {
                    let end = match self.session.transaction {
                        None => self.command(buffers, len).await,
                        // In a box: what is kept across this wait would otherwise be room in every idle connection.
                        Some(_) => Box::pin(self.queue(buffers, len)).await,
                    };
                    if end == Some(Progress::Guess) {
                        break Progress::Guess;
                    }
                    buffers.consume(len);
                    // What is queued for later does not prolong the time that a transaction has.
                    self.answered |= self.session.transaction.is_none();
                    if let Some(end) = end {
                        break end;
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

    async fn pause(&mut self) {
        check(&self.resp, &self.connection).pause().await;
        self.has_paused = true;
    }
}

/// The arguments as slices, as many as there is room for.
#[inline]
fn spread<'w, 'a>(args: &Args, input: &'a [u8], base: usize, words: &'w mut [&'a [u8]]) -> &'w [&'a [u8]] {
    let len = args.len().min(words.len());
    for (index, word) in words[..len].iter_mut().enumerate() {
        *word = &input[args.range(index, base)];
    }
    &words[..len]
}

/// Answers a command that needs no store. True if it is the last.
fn respond(
    resp: &Resp,
    connection: &Connection,
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
        // Redis says so also where there is nothing to abort.
        let kind = match entry.command() {
            Command::Exec => "EXECABORT Transaction discarded because of:",
            _ => "ERR",
        };
        reply.error(&format!("{kind} wrong number of arguments for '{}' command", entry.name()));
        return false;
    }
    let open = match entry.command() {
        Command::Auth | Command::Hello | Command::Quit => true,
        Command::Plans(verb) => is_connection_reset(verb, words.len()),
        _ => false,
    };
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
        (Command::Auth, _) => session.auth(args, check(resp, connection), out),
        (Command::Hello, _) => session.hello(args, check(resp, connection), out),
        (Command::Select, [index]) => session::select(index, &mut reply),
        (Command::Client, _) => session.client(args, out),
        (Command::Catalogue, _) => catalogue::answer(args, &mut reply),
        (Command::Config, _) => session::config(args, &mut reply),
        (Command::Info, _) => reply.bulk(info::render(&resp.engine, &resp.places, args).as_bytes()),
        (Command::Multi, _) => {
            session.transaction = Some(Box::new(Transaction::new(&resp.queued)));
            reply.ok();
        }
        (Command::Exec, _) => reply.error("ERR EXEC without MULTI"),
        (Command::Discard, _) => reply.error("ERR DISCARD without MULTI"),
        (Command::Watch, _) => reply.error(WATCH_REFUSED),
        (Command::Unwatch, _) => reply.ok(),
        (Command::Plans(Verb::Reset), []) => session.reset(resp.tokens.are_needed(), out),
        _ => reply.error(&format!("ERR wrong number of arguments for '{}' command", entry.name())),
    }
    false
}

/// What a token is held against.
fn check<'a>(resp: &'a Resp, connection: &'a Connection) -> Check<'a> {
    let (tokens, guesses, meter) = (&resp.tokens, resp.engine.guesses(), &*resp.meter);
    Check { tokens, guesses, meter, transport: NAME, connection }
}

/// `RESET` means the connection if it names no key.
pub(super) fn is_connection_reset(verb: Verb, words: usize) -> bool {
    verb == Verb::Reset && words == 1
}
