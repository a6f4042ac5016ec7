//! `MULTI`, `EXEC` and `DISCARD`: commands that are queued, and then decided as one batch.
//!
//! Stock clients wrap their pipelines in these by default. A queued command is kept as the bytes that it came as, and
//! read again when it is executed: it means then what it would have meant without a transaction.
//!
//! Only commands that are short work are taken: what waits for something other than the store (`AUTH`), or is long work
//! with a long reply (`INFO`), would delay the others of the event loop, or be held in memory, ten thousand times over.
//!
//! What a transaction promises: its commands are decided in their order, and nothing that another client of the same
//! event loop asks is decided between them, as long as the store is in this process. Clients of other event loops, and
//! other servers on the same Redis, may be decided between two of them. Nothing is undone: a command that is denied
//! takes nothing, and the others take what they ask for.

use std::collections::HashSet;
use std::ops::Range;

use futures_util::future::join_all;

use super::client::{RespClient, is_connection_reset};
use super::command::{self, CommandSpec, RespCommand};
use super::frame::FrameStep;
use super::reply::RespReply;
use super::{held, planned, session, throttle};
use crate::request::{HoldVerb, PlanVerb, ThrottleDialect};
use crate::stream::{Buffers, MAX_BATCH, Progress};

/// Takes a command of `len` bytes between `MULTI` and `EXEC`. Returns how the connection ends, if this is its last.
pub(super) async fn queue(client: &mut RespClient, buffers: &mut Buffers, len: usize) -> Option<Progress> {
    let (words, base) = (client.parser.args().len(), buffers.start());
    if words == 0 {
        return None;
    }
    let word = |index| &buffers.input()[client.parser.args().range(index, base)];
    let spec = command::find(word(0));
    let is_complete = spec.is_some_and(|spec| {
        spec.takes(words) && (words < 2 || session::knows(spec.command(), word(1), words - 2))
    });
    match spec.map(CommandSpec::command) {
        Some(RespCommand::Exec) if is_complete => execute(client, buffers).await,
        Some(RespCommand::Exec) => {
            client.session.transaction = None;
            client.other(spec, buffers);
        }
        Some(RespCommand::Discard) if is_complete => {
            client.session.transaction = None;
            client.reply(&mut buffers.output).ok();
        }
        Some(RespCommand::Multi) if is_complete => {
            client.reply(&mut buffers.output).error("ERR MULTI calls can not be nested");
        }
        Some(RespCommand::Watch) if is_complete => {
            client.reply(&mut buffers.output).error("ERR WATCH inside MULTI is not allowed");
        }
        Some(RespCommand::Quit) => return client.other(spec, buffers),
        Some(RespCommand::Plans(verb)) if is_connection_reset(verb, words) => {
            return client.other(spec, buffers);
        }
        _ => match spec.filter(|_| is_complete) {
            Some(spec) => keep(client, spec, words, buffers, len),
            None => {
                // Says what is wrong with it, and does nothing else.
                client.other(spec, buffers);
                abort(client);
            }
        },
    }
    None
}

/// Queues a command, and says so.
fn keep(client: &mut RespClient, spec: &CommandSpec, words: usize, buffers: &mut Buffers, len: usize) {
    let limits = client.resp.responder.limits();
    let wrong = match spec.command() {
        RespCommand::Throttle => throttle::arity_error(ThrottleDialect::Throttle, words - 1, limits),
        RespCommand::ClThrottle => throttle::arity_error(ThrottleDialect::RedisCell, words - 1, limits),
        RespCommand::Auth
        | RespCommand::Hello
        | RespCommand::Forget
        | RespCommand::Info
        | RespCommand::Catalogue => {
            let name = spec.name().to_ascii_uppercase();
            Some(format!(
                "ERR Command not allowed inside a transaction: send {name} before MULTI or after EXEC"
            ))
        }
        _ => None,
    };
    let is_reset = spec.command() == RespCommand::Plans(PlanVerb::Reset);
    let kept = match (wrong, &mut client.session.transaction) {
        (Some(text), _) => Err(text),
        (None, Some(transaction)) => {
            transaction.push(&buffers.unread()[..len], is_reset).map_err(|problem| format!("ERR {problem}"))
        }
        (None, None) => Ok(()),
    };
    match kept {
        Ok(()) => client.reply(&mut buffers.output).simple("QUEUED"),
        Err(text) => {
            client.resp.responder.metrics().failed();
            client.reply(&mut buffers.output).error(&text);
            abort(client);
        }
    }
}

fn abort(client: &mut RespClient) {
    if let Some(transaction) = &mut client.session.transaction {
        transaction.abort();
    }
}

/// Executes what was queued, and answers it as one array.
async fn execute(client: &mut RespClient, buffers: &mut Buffers) {
    // Held until the end: so long its bytes are counted.
    let Some(mut transaction) = client.session.transaction.take() else { return };
    // The client has done its part, however long the store takes.
    client.connection.settled();
    if transaction.is_aborted {
        let message = "EXECABORT Transaction discarded because of previous errors.";
        return client.reply(&mut buffers.output).error(message);
    }
    client.reply(&mut buffers.output).array(transaction.count);
    let mut batch = Buffers::over(std::mem::take(&mut transaction.commands));
    batch.output = std::mem::take(&mut buffers.output);
    let mut waiting = Vec::new();
    // Whatever was queued was complete, and the parser is between two commands.
    while let FrameStep::Command(len) = client.parser.step(batch.unread()) {
        match QueuedPlans::read(client, &batch) {
            Some(next) => {
                if waiting.len() >= MAX_BATCH {
                    decide_plans(client, &mut waiting, &mut batch).await;
                }
                waiting.push(next);
            }
            None => {
                decide_plans(client, &mut waiting, &mut batch).await;
                client.command(&mut batch, len).await;
            }
        }
        batch.consume(len);
    }
    decide_plans(client, &mut waiting, &mut batch).await;
    client.decide(&mut batch).await;
    buffers.output = batch.output;
}

/// Asks for as many at once as there are different keys in a row, and waits for them: questions that are under way
/// together may be decided in any order.
async fn decide_plans(client: &RespClient, waiting: &mut Vec<QueuedPlans>, batch: &mut Buffers) {
    if waiting.is_empty() {
        return;
    }
    // Throttles that were queued before.
    client.decide(batch).await;
    let mut out = std::mem::take(&mut batch.output);
    let mut rest = waiting.as_slice();
    while !rest.is_empty() {
        let mut seen = HashSet::new();
        let different = rest.iter().take_while(|next| seen.insert(next.key(batch.input()))).count();
        let (wave, later) = rest.split_at(different);
        let answers = wave.iter().map(|next| next.answer(client, batch.input()));
        join_all(answers).await.iter().for_each(|answer| out.extend_from_slice(answer));
        rest = later;
    }
    waiting.clear();
    batch.output = out;
}

/// A queued command by the names of plans, or about a hold: where its arguments are.
struct QueuedPlans {
    verb: QueuedVerb,
    words: Vec<Range<usize>>,
}

#[derive(Clone, Copy)]
enum QueuedVerb {
    Plans(PlanVerb),
    Holds(HoldVerb),
}

impl QueuedPlans {
    /// Returns the command that was just read, if it names plans or a hold and the store is remote: many such are asked for
    /// at once. A store in this process answers each when it is asked.
    fn read(client: &RespClient, batch: &Buffers) -> Option<Self> {
        if client.resp.responder.engine().answers_at_once() {
            return None;
        }
        let (args, base) = (client.parser.args(), batch.start());
        let verb = match command::find(&batch.input()[args.range(0, base)])?.command() {
            RespCommand::Plans(verb) if args.len() > 1 => QueuedVerb::Plans(verb),
            RespCommand::Holds(verb) => QueuedVerb::Holds(verb),
            _ => return None,
        };
        let words = (1..args.len()).map(|index| args.range(index, base)).collect();
        Some(QueuedPlans { verb, words })
    }

    fn key<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        self.words.first().map_or(&[], |key| &input[key.clone()])
    }

    async fn answer(&self, client: &RespClient, input: &[u8]) -> Vec<u8> {
        let words: Vec<&[u8]> = self.words.iter().map(|word| &input[word.clone()]).collect();
        let mut out = Vec::new();
        let mut reply = RespReply::new(&mut out, client.session.version);
        match self.verb {
            QueuedVerb::Plans(verb) => {
                planned::answer(&client.resp, client.right_to(verb), verb, &words, &mut reply).await
            }
            QueuedVerb::Holds(verb) => held::answer(&client.resp, verb, &words, &mut reply).await,
        }
        out
    }
}
