//! Requests to bytes, bytes to replies: a length of four bytes, then a MessagePack array, or a map.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use rmp::{decode, encode};

use crate::decision::RemoteDecision;
use crate::error::ClientError;
use crate::quota::ThrottleParts;
use crate::reply_map::{self, ReplyMap};
use crate::request::RequestParts;

/// The most bytes of a reply. The longest tells of the 16 rules of 8 plans, each with its names.
const MAX_REPLY: usize = 64 * 1024;
const PREFIX: usize = 4;

const THROTTLE: i64 = 1;
const AUTH: i64 = 2;

/// Returns the frame of a request to take from a quota.
pub(crate) fn throttle(ThrottleParts { key, numbers }: ThrottleParts<'_>) -> Vec<u8> {
    frame(6, |out| {
        encode::write_sint(out, THROTTLE)?;
        write_key(out, key)?;
        for number in numbers {
            encode::write_sint(out, number)?;
        }
        Ok(())
    })
}

/// Returns the frame of a request to be let in by a token.
pub(crate) fn auth(token: &str) -> Vec<u8> {
    frame(2, |out| {
        encode::write_sint(out, AUTH)?;
        encode::write_str(out, token)
    })
}

/// A verb that is sent as a map, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanCommand {
    Acquire = 2,
    Peek = 3,
    Refund = 4,
    Reset = 5,
    Debit = 6,
    Hold = 7,
    Settle = 8,
    Cancel = 9,
    Extend = 10,
}

/// Returns the frame of a request by the names of plans, or about a hold.
pub(crate) fn planned(command: PlanCommand, parts: &RequestParts<'_>) -> Vec<u8> {
    framed(|out| {
        let RequestParts { key, plans, id, units, age_ms, lease_ms, each } = parts;
        let fields =
            [!plans.is_empty(), id.is_some(), !units.is_empty(), age_ms.is_some(), lease_ms.is_some(), *each];
        let count = fields.into_iter().map(u32::from).sum::<u32>();
        encode::write_map_len(out, 2 + count)?;
        encode::write_str(out, "cmd")?;
        encode::write_sint(out, command as i64)?;
        encode::write_str(out, "key")?;
        write_key(out, key)?;
        if !plans.is_empty() {
            encode::write_str(out, "plans")?;
            encode::write_array_len(out, u32::try_from(plans.len()).unwrap_or(u32::MAX))?;
            plans.iter().try_for_each(|plan| encode::write_str(out, plan))?;
        }
        if let Some(id) = id {
            encode::write_str(out, "id")?;
            encode::write_str(out, &id.to_string())?;
        }
        if !units.is_empty() {
            encode::write_str(out, "costs")?;
            encode::write_map_len(out, u32::try_from(units.len()).unwrap_or(u32::MAX))?;
            for (unit, amount) in units {
                encode::write_str(out, unit)?;
                encode::write_sint(out, *amount)?;
            }
        }
        for (name, millis) in [("age_ms", age_ms), ("lease_ms", lease_ms)] {
            if let Some(millis) = millis {
                encode::write_str(out, name)?;
                encode::write_sint(out, *millis)?;
            }
        }
        if *each {
            encode::write_str(out, "each")?;
            encode::write_bool(out, true).map_err(encode::ValueWriteError::InvalidMarkerWrite)?;
        }
        Ok(())
    })
}

/// Writes text as text, for servers that accept nothing else.
fn write_key(out: &mut Vec<u8>, key: &[u8]) -> Result<(), encode::ValueWriteError> {
    match std::str::from_utf8(key) {
        Ok(text) => encode::write_str(out, text),
        Err(_) => encode::write_bin(out, key),
    }
}

fn frame(fields: u32, write: impl Fn(&mut Vec<u8>) -> Result<(), encode::ValueWriteError>) -> Vec<u8> {
    framed(|out| encode::write_array_len(out, fields).and_then(|_| write(out)))
}

fn framed(write: impl Fn(&mut Vec<u8>) -> Result<(), encode::ValueWriteError>) -> Vec<u8> {
    let mut out = vec![0; PREFIX];
    // Writing to a vector cannot fail.
    let _ = write(&mut out);
    let len = u32::try_from(out.len() - PREFIX).unwrap_or(u32::MAX);
    out[..PREFIX].copy_from_slice(&len.to_be_bytes());
    out
}

/// What a complete reply says: the server's answer, or why there is none.
pub(crate) type FrameReply = Result<ReplyBody, ClientError>;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyBody {
    /// To a throttle, or to a token.
    Decision(RemoteDecision),
    /// To a verb that is sent as a map.
    Map(ReplyMap),
}

impl ReplyBody {
    /// Returns the answer to a throttle.
    pub(crate) fn decision(self) -> Result<RemoteDecision, ClientError> {
        match self {
            ReplyBody::Decision(decision) => Ok(decision),
            ReplyBody::Map(_) => Err(ClientError::Malformed),
        }
    }

    /// Returns the answer to a verb that is sent as a map.
    pub(crate) fn map(self) -> Result<ReplyMap, ClientError> {
        match self {
            ReplyBody::Map(map) => Ok(map),
            ReplyBody::Decision(_) => Err(ClientError::Malformed),
        }
    }
}

/// Takes one reply off the input; none while it is incomplete.
///
/// # Errors
///
/// [`ClientError::Malformed`] if the input cannot be a reply, whatever follows: the connection is of no more use.
pub(crate) fn reply(input: &mut BytesMut) -> Result<Option<FrameReply>, ClientError> {
    let Some(prefix) = input.first_chunk::<PREFIX>() else { return Ok(None) };
    let len = u32::from_be_bytes(*prefix) as usize;
    if len > MAX_REPLY {
        return Err(ClientError::Malformed);
    }
    if input.len() < PREFIX + len {
        return Ok(None);
    }
    input.advance(PREFIX);
    let body = input.split_to(len);
    parse(&body).map(Some)
}

fn parse(mut body: &[u8]) -> Result<FrameReply, ClientError> {
    if matches!(body.first(), Some(0x80..=0x8f | 0xde | 0xdf)) {
        return ReplyMap::read(&mut body).map(|map| Ok(ReplyBody::Map(map)));
    }
    let fields = decode::read_array_len(&mut body).map_err(|_| ClientError::Malformed)?;
    let ok = decode::read_bool(&mut body).map_err(|_| ClientError::Malformed)?;
    let mut number = || decode::read_int::<i64, _>(&mut body).map_err(|_| ClientError::Malformed);
    let (allowed, limit, remaining) = (number()?, number()?, number()?);
    let (retry_after, reset_after) = (number()?, number()?);
    if ok {
        return Ok(Ok(ReplyBody::Decision(RemoteDecision {
            allowed: allowed != 0,
            limit,
            remaining,
            retry_after: u64::try_from(retry_after).ok().map(Duration::from_secs),
            reset_after: Duration::from_secs(u64::try_from(reset_after).unwrap_or_default()),
        })));
    }
    if fields < 7 {
        return Ok(Err(ClientError::Refused("the server gave no reason".to_owned())));
    }
    Ok(Err(ClientError::refused(&reply_map::text(&mut body)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_the_server_reads() {
        let parts = |key, numbers| throttle(ThrottleParts { key, numbers });
        assert_eq!(parts(b"k", [15, 30, 60, 1]), b"\0\0\0\x08\x96\x01\xa1k\x0f\x1e\x3c\x01");
        assert_eq!(parts(b"\xff", [1, 1, 1, -1])[6..9], *b"\xc4\x01\xff");
        assert_eq!(auth("sesame"), b"\0\0\0\x09\x92\x02\xa6sesame");
    }

    #[test]
    fn what_is_left_out_is_not_written() {
        let parts = RequestParts { key: b"k", ..RequestParts::default() };
        assert_eq!(planned(PlanCommand::Reset, &parts), b"\0\0\0\x0c\x82\xa3cmd\x05\xa3key\xa1k");
        let (plans, units) = (["p".to_owned()], vec![("t", 58)]);
        let parts = RequestParts { plans: &plans, units, lease_ms: Some(100), each: true, ..parts };
        let tail = b"\xa5plans\x91\xa1p\xa5costs\x81\xa1t\x3a\xa8lease_ms\x64\xa4each\xc3";
        let hold = planned(PlanCommand::Hold, &parts);
        assert_eq!(hold[4..], [&b"\x86\xa3cmd\x07\xa3key\xa1k"[..], tail].concat());
    }

    #[test]
    fn replies_are_taken_one_by_one() {
        let mut input =
            BytesMut::from(&b"\0\0\0\x07\x96\xc3\x00\x05\x00\xff\x1e\0\0\0\x0a\x97\xc2\0\0\0\0\0\xa2no"[..]);
        let last = input.split_off(input.len() - 1);
        let decision = reply(&mut input).unwrap().unwrap().unwrap().decision().unwrap();
        assert_eq!((decision.allowed, decision.limit, decision.retry_after), (false, 5, None));
        assert_eq!(decision.reset_after, Duration::from_secs(30));
        assert!(reply(&mut input).unwrap().is_none(), "one byte is missing");
        input.unsplit(last);
        assert!(matches!(reply(&mut input), Ok(Some(Err(ClientError::Refused(why)))) if why == "no"));
        assert!(reply(&mut input).unwrap().is_none());
    }

    #[test]
    fn nonsense_is_no_reply_and_no_length_is_believed() {
        for bytes in [
            &b"\xff\xff\xff\xff"[..],
            b"\0\0\0\x01\xc1",
            b"\0\0\0\x00",
            b"\0\0\0\x09\x97\xc2\0\0\0\0\0\xd9\xff",
        ] {
            assert!(matches!(reply(&mut BytesMut::from(bytes)), Err(ClientError::Malformed)), "{bytes:?}");
        }
    }
}
