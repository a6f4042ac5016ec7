//! Maps of replies, read without believing any length.

use std::time::Duration;

use rmp::decode;

use crate::error::ClientError;
use crate::hold_id::RemoteHoldId;
use crate::ruling::{RemoteHold, RemoteHoldState, RemoteOutcome, RemoteRule, RemoteRuling};

/// The deepest that a reply is nested: a map, a list of rules, a map of each.
const MAX_DEPTH: u8 = 3;

/// The fields of a map, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyMap(Vec<(String, ReplyValue)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplyValue {
    Nil,
    Bool(bool),
    Integer(i64),
    Text(String),
    Maps(Vec<ReplyMap>),
}

impl ReplyMap {
    /// Reads a map from the start of a body. Every value has at least one byte, so it ends with the body.
    pub(crate) fn read(body: &mut &[u8]) -> Result<Self, ClientError> {
        Self::read_within(body, MAX_DEPTH)
    }

    fn read_within(body: &mut &[u8], depth: u8) -> Result<Self, ClientError> {
        let depth = depth.checked_sub(1).ok_or(ClientError::Malformed)?;
        let len = decode::read_map_len(body).map_err(|_| ClientError::Malformed)?;
        let mut fields = Vec::new();
        for _ in 0..len {
            fields.push((text(body)?, ReplyValue::read(body, depth)?));
        }
        Ok(ReplyMap(fields))
    }

    fn get(&self, name: &str) -> Result<&ReplyValue, ClientError> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value).ok_or(ClientError::Malformed)
    }

    fn bool(&self, name: &str) -> Result<bool, ClientError> {
        if let ReplyValue::Bool(value) = self.get(name)? { Ok(*value) } else { Err(ClientError::Malformed) }
    }

    fn integer(&self, name: &str) -> Result<i64, ClientError> {
        if let ReplyValue::Integer(value) = self.get(name)? {
            Ok(*value)
        } else {
            Err(ClientError::Malformed)
        }
    }

    /// Returns a number that is not negative.
    pub(crate) fn whole(&self, name: &str) -> Result<u64, ClientError> {
        u64::try_from(self.integer(name)?).map_err(|_| ClientError::Malformed)
    }

    fn text(&self, name: &str) -> Result<Option<&str>, ClientError> {
        match self.get(name)? {
            ReplyValue::Text(text) => Ok(Some(text)),
            ReplyValue::Nil => Ok(None),
            _ => Err(ClientError::Malformed),
        }
    }

    fn owned(&self, name: &str) -> Result<String, ClientError> {
        Ok(self.text(name)?.unwrap_or_default().to_owned())
    }

    /// Returns the milliseconds of a field; none if they are negative.
    fn millis(&self, name: &str) -> Result<Option<Duration>, ClientError> {
        Ok(u64::try_from(self.integer(name)?).ok().map(Duration::from_millis))
    }

    fn rules(&self) -> Result<Vec<RemoteRule>, ClientError> {
        match self.get("rules") {
            Ok(ReplyValue::Maps(rules)) => rules.iter().map(ReplyMap::rule).collect(),
            Ok(_) => Err(ClientError::Malformed),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn rule(&self) -> Result<RemoteRule, ClientError> {
        Ok(RemoteRule {
            plan: self.owned("plan")?,
            rule: self.owned("rule")?,
            unit: self.owned("unit")?,
            allowed: self.bool("allowed")?,
            limit: self.whole("limit")?,
            remaining: self.whole("remaining")?,
            retry_after: self.millis("retry_after_ms")?,
            reset_after: self.millis("reset_after_ms")?.unwrap_or_default(),
        })
    }

    pub(crate) fn ruling(&self) -> Result<RemoteRuling, ClientError> {
        Ok(RemoteRuling {
            allowed: self.bool("allowed")?,
            limit: self.whole("limit")?,
            remaining: self.whole("remaining")?,
            retry_after: self.millis("retry_after_ms")?,
            reset_after: self.millis("reset_after_ms")?.unwrap_or_default(),
            plan: self.text("plan")?.map(str::to_owned),
            rule: self.text("rule")?.map(str::to_owned),
            reason: self.owned("reason")?,
            rules: self.rules()?,
        })
    }

    pub(crate) fn hold(&self) -> Result<RemoteHold, ClientError> {
        let id = match self.text("id")? {
            Some(id) => Some(id.parse::<RemoteHoldId>().map_err(|_| ClientError::Malformed)?),
            None => None,
        };
        Ok(RemoteHold { ruling: self.ruling()?, id })
    }

    pub(crate) fn outcome(&self) -> Result<RemoteOutcome, ClientError> {
        let state = match self.text("state")? {
            Some("settled") => RemoteHoldState::Settled,
            Some("cancelled") => RemoteHoldState::Cancelled,
            Some("extended") => RemoteHoldState::Extended,
            Some("gone") => RemoteHoldState::Gone,
            _ => return Err(ClientError::Malformed),
        };
        Ok(RemoteOutcome {
            state,
            remaining: self.whole("remaining")?,
            retry_after: self.millis("retry_after_ms")?,
            reset_after: self.millis("reset_after_ms")?.unwrap_or_default(),
        })
    }
}

impl ReplyValue {
    fn read(body: &mut &[u8], depth: u8) -> Result<Self, ClientError> {
        match body.first().ok_or(ClientError::Malformed)? {
            0xc0 => {
                *body = &body[1..];
                Ok(ReplyValue::Nil)
            }
            0xc2 | 0xc3 => decode::read_bool(body).map(ReplyValue::Bool).map_err(|_| ClientError::Malformed),
            0xa0..=0xbf | 0xd9..=0xdb => text(body).map(ReplyValue::Text),
            0x90..=0x9f | 0xdc | 0xdd => {
                let depth = depth.checked_sub(1).ok_or(ClientError::Malformed)?;
                let len = decode::read_array_len(body).map_err(|_| ClientError::Malformed)?;
                let mut maps = Vec::new();
                for _ in 0..len {
                    maps.push(ReplyMap::read_within(body, depth)?);
                }
                Ok(ReplyValue::Maps(maps))
            }
            _ => decode::read_int(body).map(ReplyValue::Integer).map_err(|_| ClientError::Malformed),
        }
    }
}

/// Reads a text, whose bytes may be anything.
pub(crate) fn text(body: &mut &[u8]) -> Result<String, ClientError> {
    let len = decode::read_str_len(body).map_err(|_| ClientError::Malformed)? as usize;
    let (text, rest) = body.split_at_checked(len).ok_or(ClientError::Malformed)?;
    *body = rest;
    Ok(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let mut body = &b"\x85\xa5state\xa4gone\xaereset_after_ms\0\xaeretry_after_ms\xff\xa4more\x91\x80\xa9remaining\x07"[..];
        let outcome = ReplyMap::read(&mut body).unwrap().outcome().unwrap();
        assert_eq!((outcome.state, outcome.remaining, outcome.retry_after), (RemoteHoldState::Gone, 7, None));
        assert!(body.is_empty());
    }

    #[test]
    fn no_length_is_believed_and_no_depth_exhausted() {
        let deep = b"\x81\xa1a\x91".repeat(1_000);
        for bytes in [
            &b""[..],
            b"\xdf\xff\xff\xff\xff",
            b"\x81\xa1a\xdd\xff\xff\xff\xff",
            b"\x81\xdb\xff\xff\xff\xffa",
            b"\x81\xa1a\xc1",
            b"\x81\x01\x01",
            &deep,
        ] {
            assert_eq!(
                ReplyMap::read(&mut &*bytes).map_err(|error| error.to_string()).ok(),
                None,
                "{bytes:?}"
            );
        }
        let map = ReplyMap::read(&mut &b"\x81\xa5state\xa4what"[..]).unwrap();
        assert!(map.outcome().is_err() && map.ruling().is_err() && map.hold().is_err());
    }
}
