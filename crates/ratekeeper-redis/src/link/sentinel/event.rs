//! What a sentinel publishes, and how it describes a master.

use redis::Value;

use super::master::ServerAddress;

/// Something that a sentinel publishes about a master.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SentinelEvent {
    /// A sentinel has ordered this server to become the master, and does not name it yet.
    Promoting(ServerAddress),
    /// The promotion was given up.
    Aborted,
    /// There is another master, which the sentinel names from now on, with its epoch.
    Changed,
}

/// A sentinel has ordered a replica to become the master. A second later the sentinel has seen that it is, and only then names it.
const WAIT_PROMOTION: &str = "+failover-state-wait-promotion";
const PROMOTED: &str = "+promoted-slave";
/// The sentinels' master is another one.
const SWITCHED: &str = "+switch-master";
const NOT_PROMOTED: &str = "-failover-abort-slave-timeout";

/// The channels to subscribe to.
pub(super) const CHANNELS: [&str; 4] = [WAIT_PROMOTION, PROMOTED, SWITCHED, NOT_PROMOTED];

/// Reads a message of one of the channels; none if it is about another master.
pub(super) fn read(channel: &str, text: &str, master: &str) -> Option<SentinelEvent> {
    let words: Vec<&str> = text.split(' ').collect();
    match (channel, words.as_slice()) {
        (SWITCHED, [name, ..]) if *name == master => Some(SentinelEvent::Changed),
        (PROMOTED, ["slave", _, _, _, "@", name, ..]) if *name == master => Some(SentinelEvent::Changed),
        (WAIT_PROMOTION, ["slave", _, host, port, "@", name, ..]) if *name == master => {
            Some(SentinelEvent::Promoting(ServerAddress {
                host: (*host).to_owned(),
                port: port.parse().ok()?,
            }))
        }
        (NOT_PROMOTED, ["master", name, ..]) if *name == master => Some(SentinelEvent::Aborted),
        _ => None,
    }
}

/// Returns the epoch in the reply to `SENTINEL MASTER`.
pub(super) fn epoch(described: Value) -> Option<u64> {
    let fields = match described {
        Value::Array(fields) => fields,
        Value::Map(fields) => fields.into_iter().flat_map(|(name, value)| [name, value]).collect(),
        _ => return None,
    };
    let (pairs, _) = fields.as_chunks::<2>();
    pairs.iter().find_map(|[name, value]| match (text(name)?, text(value)?) {
        (b"config-epoch", epoch) => str::from_utf8(epoch).ok()?.parse().ok(),
        _ => None,
    })
}

fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(text) => Some(text),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// Reads a reply as a description, and as a message of each channel: for tests and for fuzzing.
#[cfg(any(test, fuzzing))]
pub(in super::super) fn exercise_sentinel(reply: &Value) {
    let _ = epoch(reply.clone());
    let Some(text) = text(reply).and_then(|text| str::from_utf8(text).ok()) else { return };
    for channel in CHANNELS {
        let event = read(channel, text, "m");
        assert!(event.is_none() || text.split(' ').any(|word| word == "m"), "news of another master: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_ones_own_master_is_read() {
        let promoting = SentinelEvent::Promoting(ServerAddress { host: "::1".into(), port: 46087 });
        let table = [
            (SWITCHED, "m 127.0.0.1 59207 ::1 46087", Some(SentinelEvent::Changed)),
            (WAIT_PROMOTION, "slave ::1:46087 ::1 46087 @ m 127.0.0.1 59207", Some(promoting)),
            (PROMOTED, "slave ::1:46087 ::1 46087 @ m 127.0.0.1 59207", Some(SentinelEvent::Changed)),
            (NOT_PROMOTED, "master m 127.0.0.1 59207", Some(SentinelEvent::Aborted)),
            (SWITCHED, "other 127.0.0.1 59207 ::1 46087", None),
            (WAIT_PROMOTION, "slave ::1:46087 ::1 46087 @ other 127.0.0.1 59207", None),
            (PROMOTED, "slave ::1:46087 ::1 46087 @ other 127.0.0.1 59207", None),
            (NOT_PROMOTED, "master other 127.0.0.1 59207", None),
            (WAIT_PROMOTION, "slave ::1:46087 ::1 port @ m 127.0.0.1 59207", None),
            (WAIT_PROMOTION, "slave ::1:46087", None),
            (PROMOTED, "", None),
            ("+sdown", "m 127.0.0.1 59207 ::1 46087", None),
        ];
        for (channel, text, news) in table {
            assert_eq!(read(channel, text, "m"), news, "{channel} {text}");
        }
    }

    #[test]
    fn an_epoch_is_found_among_the_fields() {
        let text = |text: &str| Value::BulkString(text.into());
        let fields = ["name", "m", "config-epoch", "7", "quorum", "2"].map(text).to_vec();
        assert_eq!(epoch(Value::Array(fields.clone())), Some(7));
        let map = vec![(text("name"), text("m")), (text("config-epoch"), text("7"))];
        assert_eq!(epoch(Value::Map(map)), Some(7));
        assert_eq!(epoch(Value::Array(fields[..2].to_vec())), None);
        assert_eq!(epoch(Value::Nil), None);
    }
}
