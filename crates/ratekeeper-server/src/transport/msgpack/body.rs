//! Bodies to requests, in either form: a positional array, or a map.

use std::fmt;
use std::ops::Range;

use ratekeeper::{Cost, Key, Quota};

use super::reader::{Malformed, Reader, Value};
use crate::limits::{Limits, QuotaRefusal};

const FIELDS: [&str; 6] = ["cmd", "key", "burst", "rate", "period", "quantity"];
const THROTTLE: i64 = 1;
/// No part of the original protocol, which has no secrets.
const AUTH: i64 = 2;

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Take from a quota; the key lies there in the body.
    Throttle { key: Range<usize>, quota: Quota, cost: Cost },
    /// The token lies there in the body.
    Auth(Range<usize>),
}

/// What is wrong with a request, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mistake(pub(super) String);

impl From<Malformed> for Mistake {
    fn from(_: Malformed) -> Self {
        Mistake("malformed MessagePack".to_owned())
    }
}

fn mistake<T>(message: impl fmt::Display) -> Result<T, Mistake> {
    Err(Mistake(message.to_string()))
}

impl Request {
    pub(super) fn parse(body: &[u8], limits: &Limits) -> Result<Self, Mistake> {
        let fields = fields(body)?;
        let [cmd, key, burst, rate, period, quantity] = fields;
        let bytes = match key {
            Value::Bytes(bytes) => bytes,
            Value::Nil => return mistake("key: missing; say who asks"),
            _ => return mistake("key: must be a string or bytes"),
        };
        // It is a piece of the body, so this is its distance from the start.
        let start = bytes.as_ptr().addr() - body.as_ptr().addr();
        let key = start..start + bytes.len();
        match cmd {
            Value::Integer(THROTTLE) => {}
            Value::Integer(AUTH) => return Ok(Request::Auth(key)),
            Value::Integer(other) => return mistake(format!("cmd: {other}; 1 is throttle")),
            _ => return mistake("cmd: missing, or no integer; 1 is throttle"),
        }
        limits.admits_quotas().or_else(mistake)?;
        Key::new(bytes).or_else(mistake)?;
        let burst = number("burst", burst, limits.burst)?;
        let rate = number("rate", rate, limits.rate)?;
        let period = number("period", period, limits.period)?;
        let quantity = number("quantity", quantity, Some(1))?;
        let Ok(cost) = u64::try_from(quantity) else {
            return mistake(format!("quantity: {quantity}; must be at least 0"));
        };
        let quota =
            limits.throttle(burst, rate, period).or_else(|refusal| mistake(in_our_words(&refusal)))?;
        Ok(Request::Throttle { key, quota, cost: Cost::new(cost) })
    }
}

/// What is wrong with a quota, by the names that its fields have here.
fn in_our_words(refusal: &QuotaRefusal) -> String {
    let text = refusal.to_string();
    [("max_burst:", "burst:"), ("count_per_period:", "rate:")]
        .iter()
        .find_map(|(theirs, ours)| Some(format!("{ours}{}", text.strip_prefix(theirs)?)))
        .unwrap_or(text)
}

fn number(name: &str, value: Value<'_>, default: Option<i64>) -> Result<i64, Mistake> {
    match (value, default) {
        (Value::Integer(value), _) => Ok(value),
        (Value::Nil, Some(default)) => Ok(default),
        (Value::Nil, None) => mistake(format!("{name}: missing, and no default is configured")),
        _ => mistake(format!("{name}: must be an integer of 64 bits")),
    }
}

/// The six fields, each nil if it is absent.
fn fields(body: &[u8]) -> Result<[Value<'_>; 6], Mistake> {
    let mut reader = Reader::new(body);
    let mut fields = [Value::Nil; 6];
    match reader.value()? {
        Value::Array(len) if len as usize <= FIELDS.len() => {
            for field in fields.iter_mut().take(len as usize) {
                *field = scalar(&mut reader)?;
            }
        }
        Value::Array(len) => return mistake(format!("{len} fields; a request has at most 6")),
        Value::Map(len) => {
            for _ in 0..len {
                let name = scalar(&mut reader)?;
                let value = scalar(&mut reader)?;
                let known = FIELDS.iter().position(|field| name == Value::Bytes(field.as_bytes()));
                if let Some(known) = known {
                    fields[known] = value;
                }
            }
        }
        _ => return mistake("a request is an array or a map"),
    }
    if !reader.is_empty() {
        return mistake("bytes after the request");
    }
    Ok(fields)
}

/// A value; what lies within an array or a map is passed over.
fn scalar<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, Malformed> {
    let value = reader.value()?;
    reader.skip_within(value)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &[u8]) -> Result<Request, String> {
        Request::parse(body, &Limits::default()).map_err(|Mistake(message)| message)
    }

    #[test]
    fn both_forms_mean_the_same() {
        let array = b"\x96\x01\xa3key\x0a\x64\x3c\x02";
        let map = b"\x86\xa6period\x3c\xa3cmd\x01\xa3key\xa3key\xa5burst\x0a\xa4rate\x64\xa8quantity\x02";
        let quota = Quota::throttle(10, 100, 60).unwrap();
        let cost = Cost::new(2);
        assert_eq!(parse(array), Ok(Request::Throttle { key: 3..6, quota, cost }));
        assert_eq!(parse(map), Ok(Request::Throttle { key: 19..22, quota, cost }));
        assert_eq!(&map[19..22], b"key");
    }

    #[test]
    fn mistakes_name_the_field() {
        for (body, expected) in [
            (&b""[..], "malformed MessagePack"),
            (b"\x01", "a request is an array or a map"),
            (b"\x90", "key: missing; say who asks"),
            (b"\x95\x07\xa1k\x01\x01\x01", "cmd: 7; 1 is throttle"),
            (b"\x95\x01\x07\x01\x01\x01", "key: must be a string or bytes"),
            (b"\x95\x01\xa0\x01\x01\x01", "key: 0 bytes; a key has 1 to 1024 bytes"),
            (b"\x92\x01\xa1k", "burst: missing, and no default is configured"),
            (b"\x95\x01\xa1k\xa1x\x01\x01", "burst: must be an integer of 64 bits"),
            (b"\x95\x01\xa1k\x00\x01\x01", "burst: 0; must be at least 1"),
            (b"\x95\x01\xa1k\x01\xff\x01", "rate: -1; must be at least 1"),
            (b"\x95\x01\xa1k\x01\x01\x00", "period: 0; must be at least 1"),
            (b"\x95\x01\xa1k\xcb\x40\x24\0\0\0\0\0\0\x01\x01", "burst: must be an integer of 64 bits"),
            (b"\x95\x01\xd4\x01k\x01\x01\x01", "key: must be a string or bytes"),
            (b"\x96\x01\xa1k\x01\x01\x01\xff", "quantity: -1; must be at least 0"),
            (b"\x95\x01\xa1k\x01\x01\x01\x01", "bytes after the request"),
            (b"\x97\x01\xa1k\x01\x01\x01\x01\x01", "7 fields; a request has at most 6"),
        ] {
            assert_eq!(parse(body), Err(expected.to_owned()), "{}", body.escape_ascii());
        }
    }
}
