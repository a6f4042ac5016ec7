//! Requests to bytes, bytes to replies: a length of four bytes, then a MessagePack array.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use rmp::{decode, encode};

use crate::decision::RemoteDecision;
use crate::error::ClientError;
use crate::quota::ThrottleParts;

/// The most bytes of a reply. The longest is a refusal: seven small values, and a text of at most 255 bytes.
const MAX_REPLY: usize = 1024;
const PREFIX: usize = 4;

const THROTTLE: i64 = 1;
const AUTH: i64 = 2;

/// Returns the frame of a request to take from a quota.
pub(crate) fn throttle(ThrottleParts { key, numbers }: ThrottleParts<'_>) -> Vec<u8> {
    frame(6, |out| {
        encode::write_sint(out, THROTTLE)?;
        // Text as text, for servers that accept nothing else.
        match std::str::from_utf8(key) {
            Ok(text) => encode::write_str(out, text)?,
            Err(_) => encode::write_bin(out, key)?,
        }
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

fn frame(fields: u32, write: impl Fn(&mut Vec<u8>) -> Result<(), encode::ValueWriteError>) -> Vec<u8> {
    let mut out = vec![0; PREFIX];
    // Writing to a vector cannot fail.
    let _ = encode::write_array_len(&mut out, fields).and_then(|_| write(&mut out));
    let len = u32::try_from(out.len() - PREFIX).unwrap_or(u32::MAX);
    out[..PREFIX].copy_from_slice(&len.to_be_bytes());
    out
}

/// What a complete reply says: the server's decision, or why there is none.
pub(crate) type FrameReply = Result<RemoteDecision, ClientError>;

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
    let fields = decode::read_array_len(&mut body).map_err(|_| ClientError::Malformed)?;
    let ok = decode::read_bool(&mut body).map_err(|_| ClientError::Malformed)?;
    let mut number = || decode::read_int::<i64, _>(&mut body).map_err(|_| ClientError::Malformed);
    let (allowed, limit, remaining) = (number()?, number()?, number()?);
    let (retry_after, reset_after) = (number()?, number()?);
    if ok {
        return Ok(Ok(RemoteDecision {
            allowed: allowed != 0,
            limit,
            remaining,
            retry_after: u64::try_from(retry_after).ok().map(Duration::from_secs),
            reset_after: Duration::from_secs(u64::try_from(reset_after).unwrap_or_default()),
        }));
    }
    if fields < 7 {
        return Ok(Err(ClientError::Refused("the server gave no reason".to_owned())));
    }
    let len = decode::read_str_len(&mut body).map_err(|_| ClientError::Malformed)?;
    let text = body.get(..len as usize).ok_or(ClientError::Malformed)?;
    Ok(Err(ClientError::Refused(String::from_utf8_lossy(text).into_owned())))
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
    fn replies_are_taken_one_by_one() {
        let mut input =
            BytesMut::from(&b"\0\0\0\x07\x96\xc3\x00\x05\x00\xff\x1e\0\0\0\x0a\x97\xc2\0\0\0\0\0\xa2no"[..]);
        let last = input.split_off(input.len() - 1);
        let decision = reply(&mut input).unwrap().unwrap().unwrap();
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
