//! What can keep a server from deciding, and what to do about it.

use std::fmt;
use std::time::Duration;

use ratekeeper::{StoreError, StoreErrorKind};
use redis::ErrorKind;

/// Why the server could not be asked, or did not do what was asked. The message ends with what to do.
#[derive(Clone, Debug)]
pub struct RedisError {
    kind: RedisErrorKind,
    message: String,
    source: Option<redis::RedisError>,
    /// See [`is_lost`](RedisError::is_lost).
    is_lost: bool,
}

/// The kind of a [`RedisError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RedisErrorKind {
    /// The URL is wrong: it cannot be read, or what it names is not there.
    Address,
    /// The server cannot be reached.
    Unreachable,
    /// The server did not answer in time. Whether the request was charged is not known.
    Timeout,
    /// The server wants a password, or another one, or does not allow the user what is needed.
    Auth,
    /// Something answered that is not a Redis or Valkey server.
    NotRedis,
    /// The key holds something else than a state.
    WrongType,
    /// The server is a replica, which takes no writes.
    ReadOnly,
    /// The server is a replica that has lost its master.
    MasterDown,
    /// The server is still loading its data.
    Loading,
    /// The server's memory is full, and it may evict nothing.
    OutOfMemory,
    /// The server cannot save to disk, and takes no writes until it can.
    CannotSave,
    /// The server has fewer replicas than it must have to take writes.
    NoReplicas,
    /// The keys of one request lie in different slots of a cluster.
    CrossSlot,
    /// The cluster cannot serve the slot now, or the server is a node of a cluster and the URL says that it is alone.
    Cluster,
    /// The server is busy with a script.
    Busy,
    /// The server was not asked: its breaker is open, because it has failed too often lately.
    BreakerOpen,
    /// The caller is not within a tokio runtime, or the runtime has no timers or shuts down.
    NoRuntime,
    /// The server sent a reply that the command does not have.
    Protocol,
    /// Any other error of the server.
    Other,
}

impl RedisErrorKind {
    /// Returns the kind as metrics and logs spell it; the [reason](StoreError::reason) of a store's error.
    pub const fn as_str(self) -> &'static str {
        match self {
            RedisErrorKind::Address => "address",
            RedisErrorKind::Unreachable => "unreachable",
            RedisErrorKind::Timeout => "timeout",
            RedisErrorKind::Auth => "auth",
            RedisErrorKind::NotRedis => "not_redis",
            RedisErrorKind::WrongType => "wrong_type",
            RedisErrorKind::ReadOnly => "read_only",
            RedisErrorKind::MasterDown => "master_down",
            RedisErrorKind::Loading => "loading",
            RedisErrorKind::OutOfMemory => "out_of_memory",
            RedisErrorKind::CannotSave => "cannot_save",
            RedisErrorKind::NoReplicas => "no_replicas",
            RedisErrorKind::CrossSlot => "cross_slot",
            RedisErrorKind::Cluster => "cluster",
            RedisErrorKind::Busy => "busy",
            RedisErrorKind::BreakerOpen => "breaker_open",
            RedisErrorKind::NoRuntime => "no_runtime",
            RedisErrorKind::Protocol => "protocol",
            RedisErrorKind::Other => "other",
        }
    }
}

/// The server that a cluster's node redirects a command to. An empty host is the host that was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirect<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// True if the slot has moved for good, and not only this command is to go there.
    pub(crate) is_for_good: bool,
}

impl RedisError {
    pub(crate) fn new(kind: RedisErrorKind, message: impl Into<String>) -> Self {
        RedisError { kind, message: message.into(), source: None, is_lost: false }
    }

    pub(crate) fn timeout(after: Duration) -> Self {
        let message = format!(
            "no answer within {after:?}; whether it was charged is not known, so it is not sent again"
        );
        RedisError::new(RedisErrorKind::Timeout, message)
    }

    pub(crate) fn not_redis() -> Self {
        RedisError::new(RedisErrorKind::NotRedis, NOT_REDIS)
    }

    /// A reply that is not what the command's replies look like.
    pub(crate) fn unparsed(command: &str, expected: &str) -> Self {
        let message = format!(
            "cannot parse the reply to {command}: expected {expected}; is this a Redis or Valkey server?"
        );
        RedisError::new(RedisErrorKind::Protocol, message)
    }

    /// Something that only an error in the scripts or in this crate explains.
    pub(crate) fn script_fault(what: &str) -> Self {
        let message = format!("{what}; please report this, with the version of the server");
        RedisError::new(RedisErrorKind::Protocol, message)
    }

    pub(crate) fn subscription_ended() -> Self {
        RedisError::new(RedisErrorKind::Unreachable, "the server has ended the subscription")
    }

    pub(crate) fn no_seeds() -> Self {
        RedisError::new(RedisErrorKind::Address, "a cluster without nodes; name at least one in the URL")
    }

    pub(crate) fn no_runtime() -> Self {
        let message =
            "not within a tokio runtime with timers and I/O, or the runtime shuts down: call this within one";
        RedisError::new(RedisErrorKind::NoRuntime, message)
    }

    /// The error of an open breaker.
    pub(crate) fn refused(error: StoreError) -> Self {
        RedisError::new(RedisErrorKind::BreakerOpen, error.to_string())
    }

    /// Puts the server's address before the message, unless it is there.
    pub(crate) fn at(mut self, address: &str) -> Self {
        if !self.message.starts_with(address) {
            self.message = format!("{address}: {}", self.message);
        }
        self
    }

    /// Returns true if the server does not know the script by its SHA-1.
    pub(crate) fn is_no_script(&self) -> bool {
        self.code() == Some("NOSCRIPT")
    }

    /// Returns true if the error is about this slot or this script alone, and the server is well.
    pub(crate) fn is_of_the_slot(&self) -> bool {
        match self.code() {
            Some("MOVED" | "ASK" | "TRYAGAIN" | "NOSCRIPT") => true,
            // Not the same as `The cluster is down`.
            Some("CLUSTERDOWN") => self.message.contains("slot not served"),
            _ => false,
        }
    }

    /// Marks it as the loss of a connection that had answered before.
    pub(crate) fn lost(mut self) -> Self {
        self.is_lost = true;
        self
    }

    /// Returns true if a connection was lost that had answered before. Whether the server is there is not known: it may
    /// have closed what was idle, or have been restarted.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Returns true if the slot is moving: it still has its owner, and some of the keys are elsewhere already.
    pub(crate) fn is_try_again(&self) -> bool {
        self.code() == Some("TRYAGAIN")
    }

    /// Returns true if the connection is of no more use.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self.kind, RedisErrorKind::Unreachable | RedisErrorKind::NotRedis)
    }

    /// Returns where to send the command instead, if that is what the server says.
    pub(crate) fn redirect(&self) -> Option<Redirect<'_>> {
        let (address, _) = self.source.as_ref()?.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(Redirect { host, port, is_for_good: self.code()? == "MOVED" })
    }

    fn code(&self) -> Option<&str> {
        self.source.as_ref().and_then(redis::RedisError::code)
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> RedisErrorKind {
        self.kind
    }
}

/// The remedy where something else listens.
const NOT_REDIS: &str = "this is not a Redis or Valkey server; check host and port";

/// The remedy for a user who lacks permissions.
const NOT_ALLOWED: &str = "the user may not do this; allow on ~PREFIX:* what is needed: +ping +eval +evalsha +time +get \
                           +set +del +pttl; with sentinels +role; in a cluster +cluster|slots +cluster|info +asking; \
                           for hashes +@hash +pexpire; for permits +@sortedset +pexpire; to forget +scan +unlink; to \
                           inspect +type";

/// Returns what a server's error means by the word that it begins with, and what to do.
fn by_code(code: &str, text: &str) -> Option<(RedisErrorKind, &'static str)> {
    Some(match code {
        "NOAUTH" => (RedisErrorKind::Auth, "the server wants a password: put user and password into the URL"),
        "WRONGPASS" => (RedisErrorKind::Auth, "the password is wrong: check user and password in the URL"),
        "NOPERM" => (RedisErrorKind::Auth, NOT_ALLOWED),
        // What a script may not do, as Redis 7.0 says it, and as later ones do.
        "ERR" if text.contains("The user executing the script") || text.contains("ACL failure in script") => {
            (RedisErrorKind::Auth, NOT_ALLOWED)
        }
        "WRONGTYPE" => (
            RedisErrorKind::WrongType,
            "something else is kept under this key: delete it, or set another prefix",
        ),
        "READONLY" => (
            RedisErrorKind::ReadOnly,
            "the server is a replica: name the primary, or use redis-sentinel:// to follow it",
        ),
        "MASTERDOWN" => {
            (RedisErrorKind::MasterDown, "the server is a replica without its primary: name the primary")
        }
        "LOADING" => {
            (RedisErrorKind::Loading, "the server is loading its data: it will serve when that is done")
        }
        "OOM" => (
            RedisErrorKind::OutOfMemory,
            "the server's memory is full: raise maxmemory, or let it evict volatile keys",
        ),
        "NOREPLICAS" => (
            RedisErrorKind::NoReplicas,
            "the server has too few replicas to take writes: see min-replicas-to-write and INFO replication",
        ),
        "MISCONF" => {
            (RedisErrorKind::CannotSave, "the server cannot save to disk and takes no writes: see its log")
        }
        "CROSSSLOT" => (
            RedisErrorKind::CrossSlot,
            "the keys of one request must share a slot: the prefix must not contain braces of its own",
        ),
        "MOVED" | "ASK" => (
            RedisErrorKind::Cluster,
            "the server is a node of a cluster, or the slot is moving: use redis-cluster://",
        ),
        "CLUSTERDOWN" => (RedisErrorKind::Cluster, "the cluster does not serve this slot: see CLUSTER INFO"),
        "TRYAGAIN" => (RedisErrorKind::Cluster, "the slot is moving, key by key: it will be served soon"),
        "BUSY" => (RedisErrorKind::Busy, "the server is busy with a script: see SCRIPT KILL"),
        "ERR" if text.contains("cluster support disabled") => {
            (RedisErrorKind::Address, "the server is not a node of a cluster: use redis://")
        }
        "ERR" if text.contains("without any password configured") || text.contains("no password is set") => {
            (RedisErrorKind::Auth, "the server has no password: leave it out of the URL")
        }
        "ERR" if text.contains("invalid DB index") || text.contains("DB index is out of range") => {
            (RedisErrorKind::Address, "the server has fewer databases: name a smaller one")
        }
        _ => return None,
    })
}

impl From<redis::RedisError> for RedisError {
    fn from(source: redis::RedisError) -> Self {
        let text = source.to_string();
        let told = source.code().and_then(|code| by_code(code, &text));
        let (kind, remedy) = told.unwrap_or_else(|| match source.kind() {
            ErrorKind::AuthenticationFailed => (RedisErrorKind::Auth, "check user and password in the URL"),
            ErrorKind::InvalidClientConfig => (RedisErrorKind::Address, "check the URL"),
            ErrorKind::Parse => (RedisErrorKind::NotRedis, NOT_REDIS),
            ErrorKind::Io => (RedisErrorKind::Unreachable, "is it running, and is the URL right?"),
            _ if source.is_io_error() => {
                (RedisErrorKind::Unreachable, "is it running, and is the URL right?")
            }
            _ => (RedisErrorKind::Other, "see the server's log"),
        });
        let message = format!("{}; {remedy}", one_line(&text));
        RedisError { kind, message, source: Some(source), is_lost: false }
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind {
            RedisErrorKind::CrossSlot | RedisErrorKind::NoRuntime => StoreErrorKind::Unsupported,
            RedisErrorKind::BreakerOpen => StoreErrorKind::BreakerOpen,
            RedisErrorKind::Unreachable | RedisErrorKind::NotRedis => StoreErrorKind::Unreachable,
            RedisErrorKind::Timeout => StoreErrorKind::Timeout,
            RedisErrorKind::WrongType => StoreErrorKind::Unreadable,
            RedisErrorKind::Address
            | RedisErrorKind::Auth
            | RedisErrorKind::ReadOnly
            | RedisErrorKind::MasterDown
            | RedisErrorKind::Loading
            | RedisErrorKind::OutOfMemory
            | RedisErrorKind::CannotSave
            | RedisErrorKind::NoReplicas
            | RedisErrorKind::Cluster
            | RedisErrorKind::Busy => StoreErrorKind::Unavailable,
            RedisErrorKind::Protocol | RedisErrorKind::Other => StoreErrorKind::Other,
        };
        StoreError::new(kind, error.to_string()).because(error.kind.as_str()).caused_by(error)
    }
}

/// The most of a server's own words that is repeated, in characters.
const MOST_TOLD: usize = 300;
/// And in bytes, whatever the characters are: with what stands around them it is less than a kilobyte.
const MOST_BYTES: usize = 700;

/// Returns what a server has said as one line, and not all of it if it is long.
fn one_line(text: &str) -> String {
    let letters = text.chars().take(MOST_TOLD);
    let mut line: String =
        letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    let is_longer = line.len() > MOST_BYTES || text.chars().nth(MOST_TOLD).is_some();
    line.truncate(line.floor_char_boundary(MOST_BYTES));
    if is_longer {
        line.push('…');
    }
    line
}

/// A state that cannot be what the rules say it is.
pub(crate) fn unreadable(error: &(impl std::error::Error + Clone + Send + Sync + 'static)) -> StoreError {
    let message = format!("{error}; delete the key, or set the policy `reset`");
    StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error.clone())
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server's reply becomes.
    fn reply(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        RedisError::from(value.extract_error().unwrap_err())
    }

    #[test]
    fn what_a_server_says_is_one_short_line() {
        let said = |text: String| {
            let source = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap().extract_error();
            RedisError::from(source.unwrap_err()).to_string()
        };
        let broken = said("READONLY two\nlines".to_owned());
        assert!(broken.contains("two\u{fffd}lines; the server is a replica"), "{broken}");
        assert!(said(format!("ERR {}", "x".repeat(5_000))).len() < 400);
        assert!(said(format!("ERR {}", "\u{1f980}".repeat(5_000))).len() < 1024);
    }

    #[test]
    fn every_refusal_has_a_kind_and_a_remedy_of_its_own() {
        use RedisErrorKind as Kind;
        use StoreErrorKind as Store;
        let table = [
            ("NOAUTH Authentication required.", Kind::Auth, Store::Unavailable, "into the URL"),
            ("WRONGPASS invalid username-password pair", Kind::Auth, Store::Unavailable, "password is wrong"),
            ("NOPERM this user has no permissions", Kind::Auth, Store::Unavailable, "+evalsha"),
            ("ERR The user executing the script can't run", Kind::Auth, Store::Unavailable, "+time"),
            ("ERR ACL failure in script: User x", Kind::Auth, Store::Unavailable, "+time"),
            ("WRONGTYPE Operation against a key", Kind::WrongType, Store::Unreadable, "another prefix"),
            ("READONLY You can't write", Kind::ReadOnly, Store::Unavailable, "redis-sentinel://"),
            ("MASTERDOWN Link with MASTER is down", Kind::MasterDown, Store::Unavailable, "name the primary"),
            ("LOADING Redis is loading", Kind::Loading, Store::Unavailable, "loading its data"),
            ("OOM command not allowed", Kind::OutOfMemory, Store::Unavailable, "raise maxmemory"),
            ("NOREPLICAS Not enough good", Kind::NoReplicas, Store::Unavailable, "INFO replication"),
            ("MISCONF Redis is configured to save", Kind::CannotSave, Store::Unavailable, "see its log"),
            ("CROSSSLOT Keys in request", Kind::CrossSlot, Store::Unsupported, "must share a slot"),
            ("CLUSTERDOWN Hash slot not served", Kind::Cluster, Store::Unavailable, "CLUSTER INFO"),
            ("TRYAGAIN Multiple keys request", Kind::Cluster, Store::Unavailable, "served soon"),
            ("MOVED 3999 127.0.0.1:6381", Kind::Cluster, Store::Unavailable, "redis-cluster://"),
            ("BUSY Redis is busy running a script", Kind::Busy, Store::Unavailable, "SCRIPT KILL"),
            ("ERR something new", Kind::Other, Store::Other, "see the server's log"),
        ];
        for (line, kind, store_kind, says) in table {
            let error = reply(line);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(says), "{error}");
            let error = StoreError::from(error);
            assert_eq!((error.kind(), error.reason()), (store_kind, kind.as_str()), "{line}");
        }
    }

    #[test]
    fn redirects_are_read() {
        let moved = reply("MOVED 3999 10.0.0.7:6381");
        let expected = Redirect { host: "10.0.0.7", port: 6381, is_for_good: true };
        assert_eq!(moved.redirect(), Some(expected));
        let here = Redirect { host: "", port: 6381, is_for_good: false };
        assert_eq!(reply("ASK 3999 :6381").redirect(), Some(here));
        assert_eq!(reply("MOVED 3999 10.0.0.7:70000").redirect(), None);
        assert_eq!(reply("MOVED").redirect(), None);
        assert_eq!(reply("OOM 1 a:1").redirect(), None);
    }

    #[test]
    fn what_concerns_one_slot_is_no_outage_of_the_node() {
        for line in
            ["MOVED 1 h:1", "ASK 1 h:1", "TRYAGAIN later", "NOSCRIPT No", "CLUSTERDOWN Hash slot not served"]
        {
            assert!(reply(line).is_of_the_slot(), "{line}");
        }
        for line in ["CLUSTERDOWN The cluster is down", "OOM command not allowed", "ERR slot not served"] {
            assert!(!reply(line).is_of_the_slot(), "{line}");
        }
    }

    #[test]
    fn an_unknown_script_is_no_failure_to_report() {
        assert!(reply("NOSCRIPT No matching script").is_no_script());
        assert!(!reply("ERR No matching script").is_no_script());
    }
}
