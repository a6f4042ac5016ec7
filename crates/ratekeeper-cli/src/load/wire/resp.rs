//! `THROTTLE key burst count period` in the Redis protocol.

use memchr::memchr;

use super::{Answer, Reply, Throttle};

/// A request, but for its key.
#[derive(Clone, Debug)]
pub(in crate::load) struct Resp {
    after_key: Vec<u8>,
}

impl Resp {
    pub(super) fn new(Throttle { burst, count, period }: Throttle) -> Self {
        let mut after_key = b"\r\n".to_vec();
        for number in [burst, count, period] {
            let number = number.to_string();
            after_key.extend_from_slice(format!("${}\r\n{number}\r\n", number.len()).as_bytes());
        }
        Resp { after_key }
    }

    #[inline]
    pub(super) fn encode(&self, out: &mut Vec<u8>, key: &[u8; 20]) {
        out.extend_from_slice(b"*5\r\n$8\r\nTHROTTLE\r\n$20\r\n");
        out.extend_from_slice(key);
        out.extend_from_slice(&self.after_key);
    }
}

/// An array of integers, the first of which says whether it is allowed; or an error.
#[inline]
pub(super) fn decode(input: &[u8]) -> Reply {
    let Some((line, rest)) = line(input) else {
        return if input.first().is_none_or(|first| b"*-".contains(first)) {
            Reply::Partial
        } else {
            Reply::Foreign
        };
    };
    match line {
        [b'-', message @ ..] => {
            Reply::Error(input.len() - rest.len(), String::from_utf8_lossy(message).into_owned())
        }
        [b'*', count @ (b'1'..=b'9')] => integers(input.len(), count - b'0', rest),
        _ => Reply::Foreign,
    }
}

fn integers(len: usize, count: u8, mut rest: &[u8]) -> Reply {
    let mut answer = Answer::Denied;
    for index in 0..count {
        let Some((line, after)) = line(rest) else { return Reply::Partial };
        match line {
            b":1" if index == 0 => answer = Answer::Allowed,
            b":0" if index == 0 => {}
            [b':', ..] if index > 0 => {}
            _ => return Reply::Foreign,
        }
        rest = after;
    }
    Reply::Whole(len - rest.len(), answer)
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
        assert_eq!(decode(whole), Reply::Whole(whole.len(), Answer::Allowed));
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), Reply::Partial, "{cut}");
        }
        assert_eq!(decode(b"*1\r\n:0\r\nmore"), Reply::Whole(8, Answer::Denied));
        assert_eq!(decode(b"-ERR no\r\n"), Reply::Error(9, "ERR no".to_owned()));
        for foreign in [&b"HTTP/1.1 400"[..], b"+OK\r\n", b"*0\r\n", b"*1\r\n+x\r\n", b"\0\0"] {
            assert_eq!(decode(foreign), Reply::Foreign, "{}", foreign.escape_ascii());
        }
    }
}
