//! Commands to replies, in the order in which they came.
//!
//! Throttles wait until another command comes, or no more do: then all of them are decided as one batch.

use std::sync::Arc;

use ratekeeper::Key;

use super::command::{self, CommandSpec, RespCommand};
use super::context::RespTransport;
use super::error_text::error_text;
use super::frame::{CommandArgs, CommandParser, LINE_END};
use super::framing::RespFraming;
use super::framing_error::MAX_ARGS;
use super::reply::{RespReply, escaped};
use super::session::{self, RespSession};
use super::transaction::Transaction;
use super::{forget, held, info, planned, throttle};
use crate::net::Connection;
use crate::request::{CheckedThrottle, HoldVerb, PlanVerb, ThrottleDialect};
use crate::responder::WireAnswer;
use crate::secret::{AdminRight, UNASKED};
use crate::stream::{Buffers, MAX_BATCH, MAX_COSTLY, PendingThrottle, Progress, decide};

/// The answer to `WATCH`. Promising what is not kept would be worse than a refusal.
const WATCH_REFUSED: &str = "ERR WATCH is not supported: no key can be read here and written later, because a decision does \
     both in one step; send the commands without WATCH";

/// One client's side of the protocol, without its socket.
#[derive(Debug)]
pub(super) struct RespClient {
    pub(super) resp: Arc<RespTransport>,
    pub(super) parser: CommandParser,
    pub(super) session: RespSession,
    pub(super) connection: Arc<Connection>,
    pub(super) answered: bool,
    /// True if the client has waited before the next token is checked.
    pub(super) has_paused: bool,
    /// Commands that cost far more than their bytes show, since the other connections were served.
    pub(super) costly: u8,
}

impl RespClient {
    pub(super) fn new(resp: Arc<RespTransport>, connection: Arc<Connection>) -> Self {
        let session = RespSession::new(connection.id(), resp.responder.tokens().are_needed());
        let parser = CommandParser::default();
        RespClient { resp, parser, session, connection, answered: false, has_paused: false, costly: 0 }
    }

    /// Answers one command of `len` bytes, or adds it to the batch. Returns why, if no other can be answered now.
    #[inline]
    pub(super) async fn command(&mut self, buffers: &mut Buffers, len: usize) -> Option<Progress> {
        let args = self.parser.args();
        if args.is_empty() {
            return None;
        }
        let (input, base) = (buffers.input(), buffers.start());
        let spec = command::find(&input[args.range(0, base)]);
        let dialect = match spec.map(CommandSpec::command) {
            Some(RespCommand::Throttle) => Some(ThrottleDialect::Throttle),
            Some(RespCommand::ClThrottle) => Some(ThrottleDialect::RedisCell),
            _ => None,
        };
        if let Some(dialect) = dialect
            && self.session.authenticated
        {
            match self.throttle(dialect, buffers) {
                Ok(CheckedThrottle { quota, cost, is_refund: false }) => {
                    let pending = PendingThrottle { key: args.range(1, base), quota, cost, dialect };
                    // The name, the key and three numbers: nothing is left to the configuration. What is not an array
                    // does not tell the key's length.
                    if args.len() >= 5 && buffers.unread().first() == Some(&b'*') {
                        let head = args.range(0, 0).end + LINE_END.len();
                        buffers.remember::<RespFraming>(len, head, &pending);
                    }
                    buffers.pending.push(pending);
                    if buffers.pending.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                // Boxed: what is kept across these waits would otherwise enlarge every idle connection.
                Ok(refund) => Box::pin(self.refund(dialect, refund, buffers)).await,
                Err(text) => Box::pin(self.refuse(buffers, text)).await,
            }
            return None;
        }
        self.decide(buffers).await;
        if let Some(spec) = spec
            && let RespCommand::Plans(verb) = spec.command()
            && spec.takes(args.len())
            && !is_connection_reset(verb, args.len())
            && self.session.authenticated
        {
            if verb == PlanVerb::Reset {
                self.costly = self.costly.saturating_add(1);
            }
            // Boxed, for the same reason.
            Box::pin(self.planned(verb, buffers)).await;
            return None;
        }
        if let Some(spec) = spec
            && let RespCommand::Holds(verb) = spec.command()
            && spec.takes(args.len())
            && self.session.authenticated
        {
            Box::pin(self.held(verb, buffers)).await;
            return None;
        }
        if let Some(spec) = spec
            && spec.command() == RespCommand::Forget
            && spec.takes(args.len())
            && self.session.authenticated
        {
            self.costly = MAX_COSTLY;
            Box::pin(self.forget(buffers)).await;
            return None;
        }
        let is_guess = match spec.map(CommandSpec::command) {
            Some(RespCommand::Auth) => true,
            // Its version, `AUTH`, a user and a token.
            Some(RespCommand::Hello) => args.len() >= 5,
            _ => false,
        };
        let has_paused = is_guess && std::mem::take(&mut self.has_paused);
        if is_guess && !has_paused && self.resp.responder.check(&self.connection).must_wait() {
            return Some(Progress::Guess);
        }
        self.other(spec, buffers)
    }

    /// Reads a throttle. Apart from its caller and without waiting, so that none of this is kept across a wait.
    #[inline]
    fn throttle(&self, dialect: ThrottleDialect, buffers: &Buffers) -> Result<CheckedThrottle, String> {
        // A throttle has six words; one more shows that there are too many.
        let mut words = [&[][..]; 7];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        throttle::read(dialect, &words[1..], self.resp.responder.limits())
    }

    async fn planned(&self, verb: PlanVerb, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        planned::answer(&self.resp, self.right_to(verb), verb, &words[1..], &mut self.reply(&mut out)).await;
        buffers.output = out;
    }

    async fn held(&self, verb: HoldVerb, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        held::answer(&self.resp, verb, &words[1..], &mut self.reply(&mut out)).await;
        buffers.output = out;
    }

    async fn forget(&self, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        forget::answer(&self.resp, self.right(), &words[1..], &mut self.reply(&mut out)).await;
        buffers.output = out;
    }

    /// Answers a command that needs no decision.
    #[cold]
    pub(super) fn other(
        &mut self,
        spec: Option<&'static CommandSpec>,
        buffers: &mut Buffers,
    ) -> Option<Progress> {
        // The output is taken out meanwhile, because the words are borrowed from the same buffers.
        let mut out = std::mem::take(&mut buffers.output);
        let mut words = [&[][..]; MAX_ARGS];
        let words = spread(self.parser.args(), buffers.input(), buffers.start(), &mut words);
        if matches!(spec.map(CommandSpec::command), Some(RespCommand::Info | RespCommand::Catalogue)) {
            self.costly = self.costly.saturating_add(1);
        }
        let quits = self.respond(spec, words, &mut out);
        buffers.output = out;
        quits.then_some(Progress::Quit)
    }

    /// Decides the pending throttles, and answers them.
    #[inline]
    pub(super) async fn decide(&self, buffers: &mut Buffers) {
        let version = self.session.version;
        decide(&self.resp.responder, buffers, |out, pending, decided| {
            let mut reply = RespReply::new(out, version);
            match decided {
                Ok(decision) => reply.five(throttle::answer(pending.dialect, decision)),
                Err(error) => reply.error(&format!("ERR store: {error}")),
            }
        })
        .await;
    }

    #[cold]
    #[inline(never)]
    async fn refund(&self, dialect: ThrottleDialect, refund: CheckedThrottle, buffers: &mut Buffers) {
        self.decide(buffers).await;
        let range = self.parser.args().range(1, buffers.start());
        // The key was checked when the throttle was read.
        let Ok(key) = Key::new(&buffers.input()[range]) else { return };
        let asked = async { self.resp.responder.answer(&refund.request(key, self.right())?).await };
        let answer = asked.await;
        let mut reply = self.reply(&mut buffers.output);
        match answer {
            Ok(WireAnswer::Ruling(ruling)) => reply.five(throttle::answer(dialect, &ruling)),
            Ok(_) => {}
            Err(error) => {
                self.resp.responder.metrics().failed();
                reply.error(&error_text(throttle::command_name(dialect), &error));
            }
        }
    }

    #[cold]
    #[inline(never)]
    async fn refuse(&self, buffers: &mut Buffers, text: String) {
        self.resp.responder.metrics().failed();
        self.decide(buffers).await;
        self.reply(&mut buffers.output).error(&text);
    }

    /// Returns whether the client is an administrator.
    fn right(&self) -> AdminRight {
        self.resp.responder.right(self.session.role, self.connection.is_local())
    }

    /// Returns whether the client is an administrator, if this verb needs one.
    pub(super) fn right_to(&self, verb: PlanVerb) -> AdminRight {
        if verb.admin_verb().is_some() { self.right() } else { UNASKED }
    }

    pub(super) fn reply<'a>(&self, out: &'a mut Vec<u8>) -> RespReply<'a> {
        RespReply::new(out, self.session.version)
    }

    /// Answers a command that needs no decision. Returns true if it is the last of the connection.
    fn respond(&mut self, spec: Option<&'static CommandSpec>, words: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let (resp, session) = (&self.resp, &mut self.session);
        let mut reply = RespReply::new(out, session.version);
        let Some(spec) = spec else {
            let name = words.first().copied().unwrap_or_default();
            reply.error(&format!("ERR unknown command '{}'", escaped(name)));
            return false;
        };
        if !spec.takes(words.len()) {
            // Redis says so also where there is nothing to abort.
            let kind = match spec.command() {
                RespCommand::Exec => "EXECABORT Transaction discarded because of:",
                _ => "ERR",
            };
            reply.error(&format!("{kind} wrong number of arguments for '{}' command", spec.name()));
            return false;
        }
        let open = match spec.command() {
            RespCommand::Auth | RespCommand::Hello | RespCommand::Quit => true,
            RespCommand::Plans(verb) => is_connection_reset(verb, words.len()),
            _ => false,
        };
        if !session.authenticated && !open {
            reply.error("NOAUTH Authentication required.");
            return false;
        }
        let (args, check) = (&words[1..], resp.responder.check(&self.connection));
        match (spec.command(), args) {
            (RespCommand::Ping, []) => reply.simple("PONG"),
            (RespCommand::Ping | RespCommand::Echo, [message]) => reply.bulk(message),
            (RespCommand::Quit, _) => {
                reply.ok();
                return true;
            }
            (RespCommand::Auth, _) => session.auth(args, check, out),
            (RespCommand::Hello, _) => session.hello(args, check, out),
            (RespCommand::Select, [index]) => session::select(index, &mut reply),
            (RespCommand::Client, _) => session.client(args, out),
            (RespCommand::Catalogue, _) => command::answer(args, &mut reply),
            (RespCommand::Config, _) => session::config(args, &mut reply),
            (RespCommand::Info, _) => {
                reply.bulk(info::render(resp.responder.engine(), &resp.slots, args).as_bytes());
            }
            (RespCommand::Multi, _) => {
                session.transaction = Some(Box::new(Transaction::new(&resp.queued_bytes)));
                reply.ok();
            }
            (RespCommand::Exec, _) => reply.error("ERR EXEC without MULTI"),
            (RespCommand::Discard, _) => reply.error("ERR DISCARD without MULTI"),
            (RespCommand::Watch, _) => reply.error(WATCH_REFUSED),
            (RespCommand::Unwatch, _) => reply.ok(),
            (RespCommand::Plans(PlanVerb::Reset), []) => {
                session.reset(resp.responder.tokens().are_needed(), out);
            }
            _ => reply.wrong_arity(spec.name()),
        }
        false
    }
}

/// Fills `words` with the arguments, as many as there is room for, and returns those.
#[inline]
fn spread<'w, 'a>(
    args: &CommandArgs,
    input: &'a [u8],
    base: usize,
    words: &'w mut [&'a [u8]],
) -> &'w [&'a [u8]] {
    let len = args.len().min(words.len());
    for (index, word) in words[..len].iter_mut().enumerate() {
        *word = &input[args.range(index, base)];
    }
    &words[..len]
}

/// Returns true for a `RESET` without a key, which means the connection.
pub(super) fn is_connection_reset(verb: PlanVerb, words: usize) -> bool {
    verb == PlanVerb::Reset && words == 1
}
