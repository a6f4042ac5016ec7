//! The commands there are: for dispatch, and for clients who ask with `COMMAND`.

use super::plans::Verb;
use super::reply::Reply;

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Throttle,
    ClThrottle,
    Plans(Verb),
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

/// A command as it describes itself.
pub(super) struct Entry {
    name: &'static str,
    command: Command,
    /// As Redis counts: the name included, negative for "at least".
    arity: i64,
    has_key: bool,
    summary: &'static str,
}

const fn entry(
    name: &'static str,
    command: Command,
    arity: i64,
    has_key: bool,
    summary: &'static str,
) -> Entry {
    Entry { name, command, arity, has_key, summary }
}

/// Sorted by how often each is asked for.
pub(super) const COMMANDS: &[Entry] = &[
    entry(
        "throttle",
        Command::Throttle,
        -2,
        true,
        "Takes from a quota: max_burst count_per_period period [quantity]",
    ),
    entry(
        "cl.throttle",
        Command::ClThrottle,
        -2,
        true,
        "THROTTLE with the arguments and answers of redis-cell; a negative quantity gives back what was charged just now",
    ),
    entry(
        "acquire",
        Command::Plans(Verb::Acquire),
        -3,
        true,
        "Takes from plans: key plan [plan ...] [COST n]",
    ),
    entry("peek", Command::Plans(Verb::Peek), -3, true, "What ACQUIRE would answer; takes nothing"),
    entry(
        "refund",
        Command::Plans(Verb::Refund),
        -3,
        true,
        "Gives back to plans: key plan [plan ...] [COST n] [AGE ms], charged so many milliseconds ago; just now without AGE",
    ),
    entry(
        "reset",
        Command::Plans(Verb::Reset),
        -1,
        true,
        "Forgets a key: key [plan ...], without plans under all of them and all quotas of requests; without a key, \
         resets the connection as Redis does",
    ),
    entry(
        "forget",
        Command::Forget,
        -2,
        false,
        "Forgets every key that starts with these bytes (no pattern): prefix, or ALL KEYS; needs the admin token",
    ),
    entry("ping", Command::Ping, -1, false, "Answers PONG, or the message"),
    entry("echo", Command::Echo, 2, false, "Answers the message"),
    entry("quit", Command::Quit, -1, false, "Closes the connection"),
    entry("auth", Command::Auth, -2, false, "Authenticates the connection"),
    entry("hello", Command::Hello, -1, false, "Chooses the protocol version"),
    entry("select", Command::Select, 2, false, "There is one database: 0"),
    entry("client", Command::Client, -2, false, "Tells of this connection"),
    entry("command", Command::Catalogue, -1, false, "Tells of the commands"),
    entry("config", Command::Config, -2, false, "Answers what benchmarks ask for"),
    entry("info", Command::Info, -1, false, "Tells of the server"),
    entry("multi", Command::Multi, 1, false, "Queues the commands that follow, until EXEC or DISCARD"),
    entry(
        "exec",
        Command::Exec,
        1,
        false,
        "Decides the queued commands as one batch, and answers all of them",
    ),
    entry("discard", Command::Discard, 1, false, "Drops the queued commands"),
    entry("watch", Command::Watch, -2, false, "Refused: a decision reads and writes in one step"),
    entry("unwatch", Command::Unwatch, 1, false, "Answers OK: nothing is ever watched"),
];

/// The command of this name, in whatever case.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Entry> {
    COMMANDS
        .iter()
        .find(|entry| entry.name.len() == name.len() && entry.name.as_bytes().eq_ignore_ascii_case(name))
}

impl Entry {
    #[inline]
    pub(super) fn command(&self) -> Command {
        self.command
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether a command of so many arguments, its name included, can be meant.
    #[inline]
    pub(super) fn takes(&self, args: usize) -> bool {
        let args = i64::try_from(args).unwrap_or(i64::MAX);
        if self.arity < 0 { args >= -self.arity } else { args == self.arity }
    }

    /// Six fields, as `COMMAND INFO` has them.
    fn describe(&self, reply: &mut Reply<'_>) {
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

    fn document(&self, reply: &mut Reply<'_>) {
        reply.bulk(self.name.as_bytes());
        reply.map(3);
        for (field, value) in [("summary", self.summary), ("since", "0.1.0"), ("group", "generic")] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// `COMMAND [COUNT | DOCS [name…] | INFO [name…] | LIST]`.
pub(super) fn answer(args: &[&[u8]], reply: &mut Reply<'_>) {
    let (sub, names) = match args {
        [] => (&b"info"[..], args),
        [sub, names @ ..] => (*sub, names),
    };
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    if is("count") {
        reply.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if is("list") {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|entry| reply.bulk(entry.name.as_bytes()));
    } else if is("docs") {
        let known = |entry: &&Entry| {
            names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(entry.name.as_bytes()))
        };
        reply.map(COMMANDS.iter().filter(known).count());
        COMMANDS.iter().filter(known).for_each(|entry| entry.document(reply));
    } else if is("info") && names.is_empty() {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|entry| entry.describe(reply));
    } else if is("info") {
        reply.array(names.len());
        for name in names {
            match find(name) {
                Some(entry) => entry.describe(reply),
                None => reply.null(),
            }
        }
    } else {
        super::session::unknown_subcommand("command", sub, reply);
    }
}
