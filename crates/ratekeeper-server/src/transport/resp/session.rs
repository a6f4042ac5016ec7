//! What clients say about their connection before they ask for anything: the part of Redis that stock clients need.

use super::command::RespCommand;
use super::reply::{RespReply, RespVersion};
use super::transaction::Transaction;
use crate::guesses::TokenCheck;
use crate::secret::ShownRole;

/// The longest name that a client may give its connection.
const MAX_NAME: usize = 64;

/// A connection's own settings.
#[derive(Debug)]
pub(super) struct RespSession {
    id: u64,
    pub(super) version: RespVersion,
    pub(super) authenticated: bool,
    /// The role of the token that the client has shown.
    pub(super) role: Option<ShownRole>,
    name: Box<[u8]>,
    /// What was queued since `MULTI`. Boxed, because few connections ever have one.
    pub(super) transaction: Option<Box<Transaction>>,
}

impl RespSession {
    pub(super) fn new(id: u64, needs_auth: bool) -> Self {
        RespSession {
            id,
            version: RespVersion::Two,
            authenticated: !needs_auth,
            role: None,
            name: Box::default(),
            transaction: None,
        }
    }

    /// Returns true if a request is decided when it comes, and neither refused nor queued.
    #[inline]
    pub(super) fn takes_requests(&self) -> bool {
        self.authenticated && self.transaction.is_none()
    }

    /// Answers `RESET` without a key: everything is as it was when the connection was opened.
    pub(super) fn reset(&mut self, needs_auth: bool, out: &mut Vec<u8>) {
        *self = RespSession::new(self.id, needs_auth);
        RespReply::new(out, self.version).simple("RESET");
    }

    /// Answers `AUTH [user] token`. There are no users: any name will do. Without a token, Redis lets its default user in
    /// with any password, so clients that are configured with one connect here too.
    pub(super) fn auth(&mut self, args: &[&[u8]], check: TokenCheck<'_>, out: &mut Vec<u8>) {
        let mut reply = RespReply::new(out, self.version);
        let ([token] | [_, token]) = args else {
            return reply.wrong_arity("auth");
        };
        match check.role(token) {
            Some(role) => {
                (self.authenticated, self.role) = (true, Some(role));
                reply.ok();
            }
            None if check.tokens.can_be_shown() => {
                reply.error("WRONGPASS invalid username-password pair or user is disabled.");
            }
            None if matches!(args, [user, _] if is_default(user)) => reply.ok(),
            None => reply.error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ),
        }
    }

    /// Answers `HELLO [2|3 [AUTH user token] [SETNAME name]]`.
    pub(super) fn hello(&mut self, args: &[&[u8]], check: TokenCheck<'_>, out: &mut Vec<u8>) {
        if let Err(error) = self.negotiate(args, check) {
            return RespReply::new(out, self.version).error(error);
        }
        let mut reply = RespReply::new(out, self.version);
        reply.map(7);
        reply.bulk(b"server");
        // Some clients look for this word before they trust a server.
        reply.bulk(b"redis");
        reply.bulk(b"version");
        reply.bulk(env!("CARGO_PKG_VERSION").as_bytes());
        reply.bulk(b"proto");
        reply.integer(if self.version == RespVersion::Three { 3 } else { 2 });
        reply.bulk(b"id");
        reply.integer(self.signed_id());
        reply.bulk(b"mode");
        reply.bulk(b"standalone");
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"modules");
        reply.array(0);
    }

    /// Changes nothing unless everything is right.
    fn negotiate(&mut self, args: &[&[u8]], check: TokenCheck<'_>) -> Result<(), &'static str> {
        let (version, mut options) = match args {
            [] => (self.version, args),
            [version, options @ ..] => match *version {
                b"2" => (RespVersion::Two, options),
                b"3" => (RespVersion::Three, options),
                _ => return Err("NOPROTO unsupported protocol version"),
            },
        };
        let (mut authenticated, mut role, mut name) = (self.authenticated, self.role, None);
        loop {
            options = match options {
                [] => break,
                [word, user, token, rest @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                    let shown = check.role(token);
                    // Without a token, Redis lets its default user in with any password.
                    let is_open = !check.tokens.can_be_shown();
                    if shown.is_none() && !(is_open && is_default(user)) {
                        return Err("WRONGPASS invalid username-password pair or user is disabled.");
                    }
                    (authenticated, role) = (true, shown.or(role));
                    rest
                }
                [word, given, rest @ ..] if word.eq_ignore_ascii_case(b"setname") => {
                    name = Some(valid_name(given)?);
                    rest
                }
                _ => return Err("ERR Syntax error in HELLO"),
            };
        }
        if !authenticated {
            return Err(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                        <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
                        RESP protocol version at the same time",
            );
        }
        (self.version, self.authenticated, self.role) = (version, true, role);
        if let Some(name) = name {
            self.name = name;
        }
        Ok(())
    }

    /// Answers `CLIENT …`; see [`CLIENT`].
    pub(super) fn client(&mut self, args: &[&[u8]], out: &mut Vec<u8>) {
        let mut reply = RespReply::new(out, self.version);
        let [sub, args @ ..] = args else { return };
        let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
        match args {
            [] if is("id") => reply.integer(self.signed_id()),
            [] if is("getname") && self.name.is_empty() => reply.null(),
            [] if is("getname") => reply.bulk(&self.name),
            [] if is("info") || is("list") => {
                let line = format!("id={} name={} db=0\n", self.id, self.name.escape_ascii());
                reply.bulk(line.as_bytes());
            }
            [name] if is("setname") => match valid_name(name) {
                Ok(name) => {
                    self.name = name;
                    reply.ok();
                }
                Err(error) => reply.error(error),
            },
            [_, _] if is("setinfo") => reply.ok(),
            [_] if is("no-evict") || is("no-touch") => reply.ok(),
            // Replies cannot be turned off: then it would not be known which answer belongs to which request.
            [word] if is("reply") && word.eq_ignore_ascii_case(b"on") => reply.ok(),
            _ => reply.unknown_subcommand("client", sub),
        }
    }

    fn signed_id(&self) -> i64 {
        i64::try_from(self.id).unwrap_or(i64::MAX)
    }
}

/// The subcommands of `CLIENT`, each with the number of its arguments.
const CLIENT: [(&str, usize); 9] = [
    ("id", 0),
    ("getname", 0),
    ("info", 0),
    ("list", 0),
    ("setname", 1),
    ("setinfo", 2),
    ("no-evict", 1),
    ("no-touch", 1),
    ("reply", 1),
];

/// Returns true if a command has this second word, with this many arguments after it.
pub(super) fn knows(command: RespCommand, sub: &[u8], args: usize) -> bool {
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    match command {
        RespCommand::Client => CLIENT.iter().any(|(name, count)| is(name) && *count == args),
        RespCommand::Config => is("get") && args > 0,
        _ => true,
    }
}

fn valid_name(name: &[u8]) -> Result<Box<[u8]>, &'static str> {
    if name.len() > MAX_NAME {
        return Err("ERR Client names have at most 64 bytes");
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.");
    }
    Ok(name.into())
}

/// Answers `SELECT`: there is one database.
pub(super) fn select(index: &[u8], reply: &mut RespReply<'_>) {
    match super::number::integer(index) {
        Some(0) => reply.ok(),
        Some(_) => reply.error("ERR DB index is out of range"),
        None => reply.error("ERR value is not an integer or out of range"),
    }
}

fn is_default(user: &[u8]) -> bool {
    user == b"default"
}

/// Answers `CONFIG GET`: redis-benchmark asks how data is saved before it measures.
pub(super) fn config(args: &[&[u8]], reply: &mut RespReply<'_>) {
    let [sub, names @ ..] = args else { return };
    if !sub.eq_ignore_ascii_case(b"get") || names.is_empty() {
        return reply.unknown_subcommand("config", sub);
    }
    let known = [("save", ""), ("appendonly", "no"), ("databases", "1")];
    let asked =
        |name: &&(&str, &str)| names.iter().any(|asked| asked.eq_ignore_ascii_case(name.0.as_bytes()));
    reply.map(known.iter().filter(asked).count());
    for (name, value) in known.iter().filter(asked) {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
