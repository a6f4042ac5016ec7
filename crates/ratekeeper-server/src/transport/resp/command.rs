//! The commands there are: for dispatch, and for clients that ask with `COMMAND`.

use super::reply::RespReply;
use crate::request::{HoldVerb, PlanVerb};

/// A command that a client can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespCommand {
    Throttle,
    ClThrottle,
    Plans(PlanVerb),
    Holds(HoldVerb),
    Forget,
    Ping,
    Echo,
    Quit,
    Auth,
    Hello,
    Select,
    Client,
    Catalogue,
    Config,
    Info,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// A command with its name, its arity and its description.
pub(super) struct CommandSpec {
    name: &'static str,
    command: RespCommand,
    /// As Redis counts: the name included, negative for "at least".
    arity: i64,
    has_key: bool,
    summary: &'static str,
}

const fn spec(
    name: &'static str,
    command: RespCommand,
    arity: i64,
    has_key: bool,
    summary: &'static str,
) -> CommandSpec {
    CommandSpec { name, command, arity, has_key, summary }
}

/// All commands, the most frequent first.
pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "throttle",
        RespCommand::Throttle,
        -2,
        true,
        "Takes from a quota: max_burst count_per_period period [quantity]",
    ),
    spec(
        "cl.throttle",
        RespCommand::ClThrottle,
        -2,
        true,
        "THROTTLE with the arguments and answers of redis-cell; a negative quantity gives back what was charged just now",
    ),
    spec(
        "acquire",
        RespCommand::Plans(PlanVerb::Acquire),
        -3,
        true,
        "Takes from plans: key plan [plan ...] [COST n] [UNIT name n ...] [EACH]",
    ),
    spec(
        "peek",
        RespCommand::Plans(PlanVerb::Peek),
        -3,
        true,
        "What ACQUIRE, or HOLD, would answer to the same arguments; takes nothing",
    ),
    spec(
        "refund",
        RespCommand::Plans(PlanVerb::Refund),
        -3,
        true,
        "Gives back to plans: key plan [plan ...] [COST n] [UNIT name n ...] [AGE ms], charged so many milliseconds ago; \
         just now without AGE; for the administrator",
    ),
    spec(
        "debit",
        RespCommand::Plans(PlanVerb::Debit),
        -3,
        true,
        "Charges plans for what has happened already, never refused: key plan [plan ...] [COST n] [UNIT name n ...] [EACH]; \
         for the administrator",
    ),
    spec(
        "hold",
        RespCommand::Plans(PlanVerb::Hold),
        -3,
        true,
        "Takes an estimate and a place in flight until it is ended: key plan [plan ...] [COST n] [UNIT name n ...] \
         [LEASE ms] [EACH]; a minute without LEASE; the last element of the answer, before that of EACH, is the id",
    ),
    spec(
        "settle",
        RespCommand::Holds(HoldVerb::Settle),
        -3,
        true,
        "Ends a hold with what was spent: key id [COST n] [UNIT name n ...] [EACH]; what is not named stays as estimated",
    ),
    spec(
        "cancel",
        RespCommand::Holds(HoldVerb::Cancel),
        -3,
        true,
        "Ends a hold and gives all of it back: key id [EACH]",
    ),
    spec(
        "extend",
        RespCommand::Holds(HoldVerb::Extend),
        -4,
        true,
        "Has a hold last so many milliseconds from now: key id ms [EACH]",
    ),
    spec(
        "reset",
        RespCommand::Plans(PlanVerb::Reset),
        -1,
        true,
        "Forgets a key: key [plan ...], without plans under all of them and all quotas of requests; for the administrator. \
         Without a key, resets the connection as Redis does",
    ),
    spec(
        "forget",
        RespCommand::Forget,
        -2,
        false,
        "Forgets every key that starts with these bytes (no pattern): prefix, or ALL KEYS; for the administrator",
    ),
    spec("ping", RespCommand::Ping, -1, false, "Answers PONG, or the message"),
    spec("echo", RespCommand::Echo, 2, false, "Answers the message"),
    spec("quit", RespCommand::Quit, -1, false, "Closes the connection"),
    spec("auth", RespCommand::Auth, -2, false, "Authenticates the connection"),
    spec("hello", RespCommand::Hello, -1, false, "Chooses the protocol version"),
    spec("select", RespCommand::Select, 2, false, "There is one database: 0"),
    spec("client", RespCommand::Client, -2, false, "Tells of this connection"),
    spec("command", RespCommand::Catalogue, -1, false, "Tells of the commands"),
    spec("config", RespCommand::Config, -2, false, "Answers what benchmarks ask for"),
    spec("info", RespCommand::Info, -1, false, "Tells of the server"),
    spec("multi", RespCommand::Multi, 1, false, "Queues the commands that follow, until EXEC or DISCARD"),
    spec(
        "exec",
        RespCommand::Exec,
        1,
        false,
        "Decides the queued commands as one batch, and answers all of them",
    ),
    spec("discard", RespCommand::Discard, 1, false, "Drops the queued commands"),
    spec("watch", RespCommand::Watch, -2, false, "Refused: a decision reads and writes in one step"),
    spec("unwatch", RespCommand::Unwatch, 1, false, "Answers OK: nothing is ever watched"),
];

/// Returns the command of this name, in whatever case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    COMMANDS
        .iter()
        .find(|spec| spec.name.len() == name.len() && spec.name.as_bytes().eq_ignore_ascii_case(name))
}

impl CommandSpec {
    #[inline]
    pub(super) fn command(&self) -> RespCommand {
        self.command
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true if the command can have this many arguments, its name included.
    #[inline]
    pub(super) fn takes(&self, args: usize) -> bool {
        let args = i64::try_from(args).unwrap_or(i64::MAX);
        if self.arity < 0 { args >= -self.arity } else { args == self.arity }
    }

    /// Writes six fields, as `COMMAND INFO` has them.
    fn describe(&self, reply: &mut RespReply<'_>) {
        let key = i64::from(self.has_key);
        reply.array(6);
        reply.bulk(self.name.as_bytes());
        reply.integer(self.arity);
        reply.array(1);
        reply.simple(if self.has_key { "write" } else { "fast" });
        reply.integer(key);
        reply.integer(key);
        reply.integer(key);
    }

    fn document(&self, reply: &mut RespReply<'_>) {
        reply.bulk(self.name.as_bytes());
        reply.map(3);
        for (field, value) in [("summary", self.summary), ("since", "0.1.0"), ("group", "generic")] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// Answers `COMMAND [COUNT | DOCS [name…] | INFO [name…] | LIST]`.
pub(super) fn answer(args: &[&[u8]], reply: &mut RespReply<'_>) {
    let (sub, names) = match args {
        [] => (&b"info"[..], args),
        [sub, names @ ..] => (*sub, names),
    };
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    if is("count") {
        reply.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if is("list") {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| reply.bulk(spec.name.as_bytes()));
    } else if is("docs") {
        let known = |spec: &&CommandSpec| {
            names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(spec.name.as_bytes()))
        };
        reply.map(COMMANDS.iter().filter(known).count());
        COMMANDS.iter().filter(known).for_each(|spec| spec.document(reply));
    } else if is("info") && names.is_empty() {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| spec.describe(reply));
    } else if is("info") {
        reply.array(names.len());
        for name in names {
            match find(name) {
                Some(spec) => spec.describe(reply),
                None => reply.null(),
            }
        }
    } else {
        reply.unknown_subcommand("command", sub);
    }
}
