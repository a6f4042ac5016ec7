//! Decisions to bodies: `ok, allowed, limit, remaining, retry_after, reset_after`, and with a refusal its reason.

use ratekeeper::Decision;

/// Bytes of the length before a body.
pub(super) const PREFIX: usize = 4;

/// The longest text whose length fits into one byte.
const MAX_MESSAGE: usize = 255;

/// Writes a decision; times in whole seconds, rounded up, −1 for never.
#[inline]
pub(super) fn decided(out: &mut Vec<u8>, decision: &Decision) {
    let saturated = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let start = begin(out);
    out.extend_from_slice(&[0x96, 0xc3, u8::from(decision.allowed)]);
    integer(out, saturated(decision.limit));
    integer(out, saturated(decision.remaining));
    integer(out, decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs())));
    integer(out, saturated(decision.reset_after.ceil_secs()));
    end(out, start);
}

/// Writes the answer to a valid token.
pub(super) fn welcome(out: &mut Vec<u8>) {
    let start = begin(out);
    out.extend_from_slice(&[0x96, 0xc3, 0, 0, 0, 0, 0]);
    end(out, start);
}

/// Writes a refusal with its reason; nothing was decided.
pub(super) fn refuse(out: &mut Vec<u8>, message: &str) {
    let start = begin(out);
    out.extend_from_slice(&[0x97, 0xc2, 0, 0, 0, 0, 0]);
    let shown = &message[..message.floor_char_boundary(MAX_MESSAGE)];
    out.extend_from_slice(&[0xd9, u8::try_from(shown.len()).unwrap_or(0)]);
    out.extend_from_slice(shown.as_bytes());
    end(out, start);
}

fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; PREFIX]);
    out.len()
}

fn end(out: &mut [u8], start: usize) {
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start - PREFIX..start].copy_from_slice(&len.to_be_bytes());
}

/// Writes an integer in as few bytes as possible.
#[inline]
fn integer(out: &mut Vec<u8>, value: i64) {
    if let Ok(small) = u8::try_from(value) {
        if small > 0x7f {
            out.push(0xcc);
        }
        out.push(small);
    } else if let Ok(value) = u16::try_from(value) {
        out.push(0xcd);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Ok(value) = u32::try_from(value) {
        out.push(0xce);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Ok(value) = u64::try_from(value) {
        out.push(0xcf);
        out.extend_from_slice(&value.to_be_bytes());
    } else if value >= -32 {
        // A small negative is its own marker.
        out.push(value.to_be_bytes()[7]);
    } else {
        out.push(0xd3);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::Nanos;

    use super::super::reader::{PackReader, PackValue};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, i64::MAX, -1, -32, -33, i64::MIN] {
            let mut out = Vec::new();
            integer(&mut out, number);
            let mut reader = PackReader::new(&out);
            assert_eq!(reader.value(), Ok(PackValue::Integer(number)));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn frames() {
        let mut out = Vec::new();
        decided(&mut out, &Decision::deny(5, 0, Some(Nanos::from_millis(571)), Nanos::from_secs(30)));
        assert_eq!(out, b"\0\0\0\x07\x96\xc3\x00\x05\x00\x01\x1e");
        out.clear();
        refuse(&mut out, &"é".repeat(200));
        assert_eq!(u32::from_be_bytes(*out.first_chunk().unwrap()) as usize, out.len() - 4);
        assert!(std::str::from_utf8(&out[4 + 9..]).is_ok());
    }
}
