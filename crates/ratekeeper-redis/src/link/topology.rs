//! The reply to `CLUSTER SLOTS`: which node has which slots.

use redis::Value;

use super::slot::SLOTS;
use crate::error::RedisError;

/// A range of slots, and the node that has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: usize,
    /// The last slot, which belongs to the range.
    pub(super) last: usize,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reads the reply of the node at `asked`: a node that does not know its own name is where it was asked.
pub(super) fn read(reply: Value, asked: &str) -> Result<Vec<SlotRange>, RedisError> {
    let Value::Array(ranges) = reply else { return Err(unreadable()) };
    ranges.iter().map(|range| read_range(range, asked).ok_or_else(unreadable)).collect()
}

fn read_range(range: &Value, asked: &str) -> Option<SlotRange> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        Value::Nil => String::new(),
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { asked.to_owned() } else { host };
    let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
    // No cluster has more slots, and what is counted of them fits.
    let is_range = first <= last && last < SLOTS;
    is_range.then_some(SlotRange { first, last, host, port: u16::try_from(*port).ok()? })
}

fn unreadable() -> RedisError {
    RedisError::unparsed("CLUSTER SLOTS", "an array of ranges")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let id = Value::BulkString(b"id".to_vec());
        let primary = Value::Array(vec![host, Value::Int(port), id]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary.clone(), primary])
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_asked() {
        let reply = Value::Array(vec![
            range(0, 5460, Value::BulkString(b"10.0.0.1".to_vec()), 7000),
            range(5461, 16383, Value::Nil, 7001),
        ]);
        let ranges = read(reply, "localhost").unwrap();
        assert_eq!((ranges[0].host.as_str(), ranges[0].port, ranges[0].last), ("10.0.0.1", 7000, 5460));
        assert_eq!((ranges[1].host.as_str(), ranges[1].first), ("localhost", 5461));
    }

    #[test]
    fn nonsense_is_an_error() {
        let host = || Value::BulkString(b"h".to_vec());
        let replies = [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(-1, 5, host(), 7000)]),
            Value::Array(vec![range(6, 5, host(), 7000)]),
            Value::Array(vec![range(0, 16_384, host(), 7000)]),
            Value::Array(vec![range(0, 5, host(), 70_000)]),
            Value::Array(vec![range(0, 5, Value::Int(4), 7000)]),
        ];
        for reply in replies {
            let error = read(reply, "h").unwrap_err().to_string();
            assert!(
                error.starts_with("cannot parse the reply to CLUSTER SLOTS: expected an array of ranges")
            );
        }
    }
}
