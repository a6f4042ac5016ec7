//! Bodies to requests, in either form: a positional array, or a map.

use std::fmt;
use std::ops::Range;

use ratekeeper::{Cost, Key, Quota};

use super::reader::{MalformedPack, PackReader, PackValue};
use super::verb::PackVerb;
use crate::request::{RequestError, RequestField, RequestLimits, ThrottleDialect, ThrottleFields};

const FIELDS: [&str; 6] = ["cmd", "key", "burst", "rate", "period", "quantity"];
/// The place of the key among them.
const KEY: usize = 1;
const THROTTLE: i64 = 1;
/// No part of the original protocol, which has no tokens. As a map it is a verb.
const AUTH: i64 = 2;

/// What a body asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PackBody {
    /// A throttle.
    Throttle {
        /// Where the key lies in the body.
        key: Range<usize>,
        /// What it is held to.
        quota: Quota,
        /// How much it takes.
        cost: Cost,
        /// Where the key with its marker begins, if no number is left to the configuration: then a body that differs in
        /// these bytes alone means the same for another key.
        repeats: Option<usize>,
    },
    /// To be let in, by the token that lies there in the body.
    Auth(Range<usize>),
    /// Something that is asked for by a map.
    Verb {
        verb: PackVerb,
        /// Where the key lies, if there is nothing else, and `cmd` is that of a token: one who has shown none means it so.
        token: Option<Range<usize>>,
    },
}

/// What is wrong with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BodyError(pub(super) String);

impl From<MalformedPack> for BodyError {
    fn from(_: MalformedPack) -> Self {
        BodyError("malformed MessagePack".to_owned())
    }
}

impl From<RequestError> for BodyError {
    fn from(error: RequestError) -> Self {
        BodyError(error.spelled(name))
    }
}

/// Returns what a field is called on this wire.
fn name(field: RequestField) -> &'static str {
    match field {
        RequestField::MaxBurst => "burst",
        RequestField::CountPerPeriod => "rate",
        other => other.name(),
    }
}

pub(super) fn wrong<T>(message: impl fmt::Display) -> Result<T, BodyError> {
    Err(BodyError(message.to_string()))
}

impl PackBody {
    /// Reads a body. Allocates nothing unless something is wrong.
    pub(super) fn read(body: &[u8], limits: &RequestLimits) -> Result<Self, BodyError> {
        let BodyFields { values, key_at, pairs } = fields(body)?;
        let [cmd, key, burst, rate, period, quantity] = values;
        let bytes = match key {
            PackValue::Bytes(bytes) => bytes,
            PackValue::Nil => return Err(RequestError::Missing(RequestField::Key).into()),
            _ => return wrong("key: must be a string or bytes"),
        };
        // The key is a piece of the body, so this is its distance from the start.
        let start = bytes.as_ptr().addr() - body.as_ptr().addr();
        let key = start..start + bytes.len();
        match cmd {
            PackValue::Integer(THROTTLE) => {}
            PackValue::Integer(AUTH) if pairs.is_none() => return Ok(PackBody::Auth(key)),
            PackValue::Integer(other) => match (PackVerb::find(other), pairs) {
                (Some(verb), Some(pairs)) => {
                    let token = (other == AUTH && pairs == 2).then_some(key);
                    return Ok(PackBody::Verb { verb, token });
                }
                (Some(_), None) => {
                    return wrong(format!("cmd: {other}; it is sent as a map, 1 (throttle) as an array"));
                }
                (None, _) => {
                    return wrong(format!("cmd: {other}; 1 is throttle, 2 to 10 are by the names of plans"));
                }
            },
            _ => return wrong("cmd: missing, or no integer; 1 is throttle"),
        }
        limits.admits_quotas()?;
        Key::new(bytes).map_err(RequestError::from)?;
        let fields = ThrottleFields {
            max_burst: number(RequestField::MaxBurst, burst)?,
            count_per_period: number(RequestField::CountPerPeriod, rate)?,
            period: number(RequestField::Period, period)?,
            quantity: number(RequestField::Quantity, quantity)?,
        };
        let throttle = fields.check(ThrottleDialect::Throttle, limits)?;
        let says_all = [fields.max_burst, fields.count_per_period, fields.period].iter().all(Option::is_some);
        let repeats = says_all.then_some(key_at);
        Ok(PackBody::Throttle { key, quota: throttle.quota, cost: throttle.cost, repeats })
    }
}

fn number(field: RequestField, value: PackValue<'_>) -> Result<Option<i64>, RequestError> {
    match value {
        PackValue::Integer(value) => Ok(Some(value)),
        PackValue::Nil => Ok(None),
        _ => Err(RequestError::not_an_integer(field)),
    }
}

/// The six fields, each nil if it is absent, and where the value of the key begins.
struct BodyFields<'a> {
    values: [PackValue<'a>; 6],
    key_at: usize,
    /// How many entries a map has; none if it is an array.
    pairs: Option<u32>,
}

fn fields(body: &[u8]) -> Result<BodyFields<'_>, BodyError> {
    let mut reader = PackReader::new(body);
    let mut values = [PackValue::Nil; 6];
    let (mut key_at, mut pairs) = (0, None);
    match reader.value()? {
        PackValue::Array(len) if len as usize <= FIELDS.len() => {
            for (index, value) in values.iter_mut().enumerate().take(len as usize) {
                if index == KEY {
                    key_at = body.len() - reader.left();
                }
                *value = scalar(&mut reader)?;
            }
        }
        PackValue::Array(len) => return wrong(format!("{len} fields; a request has at most 6")),
        PackValue::Map(len) => {
            pairs = Some(len);
            for _ in 0..len {
                let name = scalar(&mut reader)?;
                let at = body.len() - reader.left();
                let value = scalar(&mut reader)?;
                let known = FIELDS.iter().position(|field| name == PackValue::Bytes(field.as_bytes()));
                if let Some(known) = known {
                    values[known] = value;
                    if known == KEY {
                        key_at = at;
                    }
                }
            }
        }
        _ => return wrong("a request is an array or a map"),
    }
    if reader.left() > 0 {
        return wrong("bytes after the request");
    }
    Ok(BodyFields { values, key_at, pairs })
}

/// Returns the next value; what lies within an array or a map is skipped.
fn scalar<'a>(reader: &mut PackReader<'a>) -> Result<PackValue<'a>, MalformedPack> {
    let value = reader.value()?;
    reader.skip_within(value)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &[u8]) -> Result<PackBody, String> {
        PackBody::read(body, &RequestLimits::default()).map_err(|BodyError(message)| message)
    }

    #[test]
    fn both_forms_mean_the_same() {
        let array = b"\x96\x01\xa3key\x0a\x64\x3c\x02";
        let map = b"\x86\xa6period\x3c\xa3cmd\x01\xa3key\xa3key\xa5burst\x0a\xa4rate\x64\xa8quantity\x02";
        let quota = Quota::throttle(10, 100, 60).unwrap();
        let cost = Cost::new(2);
        assert_eq!(parse(array), Ok(PackBody::Throttle { key: 3..6, quota, cost, repeats: Some(2) }));
        assert_eq!(parse(map), Ok(PackBody::Throttle { key: 19..22, quota, cost, repeats: Some(18) }));
        assert_eq!(&map[19..22], b"key");
    }

    #[test]
    fn a_map_is_a_verb_and_an_array_a_token() {
        assert_eq!(parse(b"\x92\x02\xa1t"), Ok(PackBody::Auth(3..4)));
        let verb = PackVerb::find(2).unwrap();
        assert_eq!(parse(b"\x82\xa3cmd\x02\xa3key\xa1t"), Ok(PackBody::Verb { verb, token: Some(11..12) }));
        let acquire = b"\x83\xa3cmd\x02\xa3key\xa1k\xa5plans\x91\xa1p";
        assert_eq!(parse(acquire), Ok(PackBody::Verb { verb, token: None }));
        let verb = PackVerb::find(10).unwrap();
        assert_eq!(parse(b"\x82\xa3cmd\x0a\xa3key\xa1t"), Ok(PackBody::Verb { verb, token: None }));
    }

    #[test]
    fn errors_name_the_field() {
        for (body, expected) in [
            (&b""[..], "malformed MessagePack"),
            (b"\x01", "a request is an array or a map"),
            (b"\x90", "key: missing; say who asks"),
            (b"\x95\x07\xa1k\x01\x01\x01", "cmd: 7; it is sent as a map, 1 (throttle) as an array"),
            (b"\x95\x0b\xa1k\x01\x01\x01", "cmd: 11; 1 is throttle, 2 to 10 are by the names of plans"),
            (b"\x95\x01\x07\x01\x01\x01", "key: must be a string or bytes"),
            (b"\x95\x01\xa0\x01\x01\x01", "key: 0 bytes; a key has 1 to 1024 bytes"),
            (b"\x92\x01\xa1k", "burst: missing, and no default_burst is configured"),
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
