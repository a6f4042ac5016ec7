//! What a server may answer instead of a decision, and what to do about it.

use std::fmt;
use std::time::Duration;

use ratekeeper::{StoreError, StoreErrorKind};
use redis::ErrorKind;

/// The server could not be asked, or did not do what was asked. The message says what to do.
#[derive(Clone, Debug)]
pub struct RedisError {
    kind: RedisErrorKind,
    message: String,
    source: Option<redis::RedisError>,
}

/// What sort of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RedisErrorKind {
    /// The address is none, or nobody there is who it says.
    Address,
    /// It cannot be reached.
    Unreachable,
    /// It did not answer in time.
    Timeout,
    /// It wants a password, or another one, or does not allow what is needed.
    Auth,
    /// Something answered, and it is no Redis.
    NotRedis,
    /// The key holds something else than state.
    WrongType,
    /// It is a replica.
    ReadOnly,
    /// It is a replica that has lost its master.
    MasterDown,
    /// It is still reading its data.
    Loading,
    /// It has no memory left, and may evict nothing.
    OutOfMemory,
    /// It cannot save, and takes no writes until it can.
    CannotSave,
    /// It has fewer replicas than it must have to take writes.
    NoReplicas,
    /// The keys of one request lie in different slots of a cluster.
    CrossSlot,
    /// A cluster that cannot serve the slot now, or a node of a cluster where one server was expected.
    Cluster,
    /// It is busy with somebody's script.
    Busy,
    /// It was not asked, because it has failed too often lately.
    BreakerOpen,
    /// There is no tokio runtime to ask from, or it is shutting down.
    NoRuntime,
    /// The answer is none that the script gives.
    Protocol,
    /// Anything else.
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

/// Where a cluster's node says that a slot is. An empty host is the host that was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirect<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Not only for this once.
    pub(crate) is_for_good: bool,
}

impl RedisError {
    pub(crate) fn new(kind: RedisErrorKind, message: impl Into<String>) -> Self {
        RedisError { kind, message: message.into(), source: None }
    }

    pub(crate) fn timeout(after: Duration) -> Self {
        let message =
            format!("no answer within {after:?}; whether it charged is not known, so it is not asked again");
        RedisError::new(RedisErrorKind::Timeout, message)
    }

    pub(crate) fn not_redis() -> Self {
        let message = "what answers there is no Redis; check host and port";
        RedisError::new(RedisErrorKind::NotRedis, message)
    }

    pub(crate) fn protocol(what: &str) -> Self {
        RedisError::new(RedisErrorKind::Protocol, what)
    }

    pub(crate) fn no_runtime() -> Self {
        let message =
            "there is no tokio runtime here with timers and I/O, or it is shutting down: ask within one";
        RedisError::new(RedisErrorKind::NoRuntime, message)
    }

    /// What an open breaker says.
    pub(crate) fn refused(error: StoreError) -> Self {
        RedisError::new(RedisErrorKind::BreakerOpen, error.to_string())
    }

    /// The same, with where it happened, unless it says so.
    pub(crate) fn at(mut self, place: &str) -> Self {
        if !self.message.starts_with(place) {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// True if the server does not know the script by its name.
    pub(crate) fn is_no_script(&self) -> bool {
        self.code() == Some("NOSCRIPT")
    }

    /// True if the server is well and says something about this slot or this script alone.
    pub(crate) fn is_of_the_slot(&self) -> bool {
        match self.code() {
            Some("MOVED" | "ASK" | "TRYAGAIN" | "NOSCRIPT") => true,
            // Not the same as `The cluster is down`.
            Some("CLUSTERDOWN") => self.message.contains("slot not served"),
            _ => false,
        }
    }

    /// True if the connection is of no more use.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self.kind, RedisErrorKind::Unreachable | RedisErrorKind::NotRedis)
    }

    /// Where to go instead, if that is what the server says.
    pub(crate) fn redirect(&self) -> Option<Redirect<'_>> {
        let (address, _) = self.source.as_ref()?.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        let port = port.parse().ok()?;
        Some(Redirect { host, port, is_for_good: self.code()? == "MOVED" })
    }

    fn code(&self) -> Option<&str> {
        self.source.as_ref().and_then(redis::RedisError::code)
    }

    /// The kind of failure.
    pub fn kind(&self) -> RedisErrorKind {
        self.kind
    }
}

/// What a server's error means, by the word it begins with, and what to do.
fn by_code(code: &str, text: &str) -> Option<(RedisErrorKind, &'static str)> {
    Some(match code {
        "NOAUTH" => (RedisErrorKind::Auth, "it wants a password: put user and password into the URL"),
        "WRONGPASS" => (RedisErrorKind::Auth, "the password is wrong: check user and password in the URL"),
        "NOPERM" => (
            RedisErrorKind::Auth,
            "the user may not do this; allow on ~PREFIX:* what is needed: +ping +eval +evalsha +time +get +set +del \
             +pttl; with sentinels +role; in a cluster +cluster|slots +cluster|info +asking; for hashes +@hash +pexpire; \
             for permits +@sortedset +pexpire; to forget +scan +unlink; to inspect +type",
        ),
        "WRONGTYPE" => (
            RedisErrorKind::WrongType,
            "something else is kept at this key: delete it, or set another prefix",
        ),
        "READONLY" => (
            RedisErrorKind::ReadOnly,
            "it is a replica: name the primary, or use redis-sentinel:// to follow it",
        ),
        "MASTERDOWN" => (RedisErrorKind::MasterDown, "it is a replica without its primary: name the primary"),
        "LOADING" => (RedisErrorKind::Loading, "it is reading its data and will serve when that is done"),
        "OOM" => (
            RedisErrorKind::OutOfMemory,
            "its memory is full: raise maxmemory, or let it evict volatile keys",
        ),
        "NOREPLICAS" => (
            RedisErrorKind::NoReplicas,
            "it has too few replicas to take writes: see min-replicas-to-write and INFO replication",
        ),
        "MISCONF" => (RedisErrorKind::CannotSave, "it cannot save to disk and takes no writes: see its log"),
        "CROSSSLOT" => (
            RedisErrorKind::CrossSlot,
            "the keys of one request must share a slot: the prefix must not contain braces of its own",
        ),
        "MOVED" | "ASK" => (
            RedisErrorKind::Cluster,
            "it is a node of a cluster, or the slot is moving: use redis-cluster://",
        ),
        "CLUSTERDOWN" => (RedisErrorKind::Cluster, "the cluster does not serve this slot: see CLUSTER INFO"),
        "TRYAGAIN" => (RedisErrorKind::Cluster, "the slot is moving, key by key: it will be served soon"),
        "BUSY" => (RedisErrorKind::Busy, "it is busy with a script: see SCRIPT KILL"),
        "ERR" if text.contains("cluster support disabled") => {
            (RedisErrorKind::Address, "it is no node of a cluster: use redis://")
        }
        "ERR" if text.contains("without any password configured") || text.contains("no password is set") => {
            (RedisErrorKind::Auth, "it has no password: leave it out of the URL")
        }
        "ERR" if text.contains("invalid DB index") || text.contains("DB index is out of range") => {
            (RedisErrorKind::Address, "it has fewer databases: name a smaller one")
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
            ErrorKind::Parse => {
                (RedisErrorKind::NotRedis, "what answers there is no Redis; check host and port")
            }
            ErrorKind::Io => (RedisErrorKind::Unreachable, "is it running, and is the URL right?"),
            _ if source.is_io_error() => {
                (RedisErrorKind::Unreachable, "is it running, and is the URL right?")
            }
            _ => (RedisErrorKind::Other, "see the server's log"),
        });
        RedisError { kind, message: format!("{text}; {remedy}"), source: Some(source) }
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
    fn every_refusal_has_a_kind_and_a_remedy_of_its_own() {
        use RedisErrorKind as Kind;
        use StoreErrorKind as Store;
        let table = [
            ("NOAUTH Authentication required.", Kind::Auth, Store::Unavailable, "into the URL"),
            ("WRONGPASS invalid username-password pair", Kind::Auth, Store::Unavailable, "password is wrong"),
            ("NOPERM this user has no permissions", Kind::Auth, Store::Unavailable, "+evalsha"),
            ("WRONGTYPE Operation against a key", Kind::WrongType, Store::Unreadable, "another prefix"),
            ("READONLY You can't write", Kind::ReadOnly, Store::Unavailable, "redis-sentinel://"),
            ("MASTERDOWN Link with MASTER is down", Kind::MasterDown, Store::Unavailable, "name the primary"),
            ("LOADING Redis is loading", Kind::Loading, Store::Unavailable, "reading its data"),
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
