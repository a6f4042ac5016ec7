//! `THROTTLE key burst count period` in the Redis protocol.

use memchr::memchr;

use super::super::measurement::LoadAnswer;
use super::super::work::ThrottleNumbers;
use super::reply::WireReply;

/// Returns what stands before and after the key of a request.
pub(super) fn around_key(ThrottleNumbers { burst, count, period }: ThrottleNumbers) -> (Vec<u8>, Vec<u8>) {
    let mut after_key = b"\r\n".to_vec();
    for number in [burst, count, period] {
        let number = number.to_string();
        after_key.extend_from_slice(format!("${}\r\n{number}\r\n", number.len()).as_bytes());
    }
    (b"*5\r\n$8\r\nTHROTTLE\r\n$20\r\n".to_vec(), after_key)
}

/// Reads a reply: an array of integers, the first of which says whether the request is allowed, or an error.
#[inline]
pub(super) fn decode(input: &[u8]) -> WireReply {
    let Some((line, rest)) = line(input) else {
        return if input.first().is_none_or(|first| b"*-".contains(first)) {
            WireReply::Partial
        } else {
            WireReply::Foreign
        };
    };
    match line {
        [b'-', message @ ..] => WireReply::error(input.len() - rest.len(), message),
        [b'*', count @ (b'1'..=b'9')] => integers(input.len(), count - b'0', rest),
        _ => WireReply::Foreign,
    }
}

fn integers(len: usize, count: u8, mut rest: &[u8]) -> WireReply {
    let mut answer = LoadAnswer::Denied;
    for index in 0..count {
        let Some((line, after)) = line(rest) else { return WireReply::Partial };
        match line {
            b":1" if index == 0 => answer = LoadAnswer::Allowed,
            b":0" if index == 0 => {}
            [b':', ..] if index > 0 => {}
            _ => return WireReply::Foreign,
        }
        rest = after;
    }
    WireReply::Whole(len - rest.len(), answer)
}

#[inline]
fn line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b'\n', input)?;
    Some((input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]), &input[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        let whole = b"*5\r\n:1\r\n:10\r\n:9\r\n:1\r\n:0\r\n";
        assert_eq!(decode(whole), WireReply::Whole(whole.len(), LoadAnswer::Allowed));
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), WireReply::Partial, "{cut}");
        }
        assert_eq!(decode(b"*1\r\n:0\r\nmore"), WireReply::Whole(8, LoadAnswer::Denied));
        assert_eq!(decode(b"-ERR no\r\n"), WireReply::Error(9, "ERR no".to_owned()));
        for foreign in [&b"HTTP/1.1 400"[..], b"+OK\r\n", b"*0\r\n", b"*1\r\n+x\r\n", b"\0\0"] {
            assert_eq!(decode(foreign), WireReply::Foreign, "{}", foreign.escape_ascii());
        }
    }
}
