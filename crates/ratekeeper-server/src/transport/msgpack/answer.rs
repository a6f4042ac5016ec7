//! Decisions to bodies: `ok, allowed, limit, remaining, retry_after, reset_after`, and with a refusal its reason.

use ratekeeper::Decision;

/// Bytes of the length before a body.
pub(super) const PREFIX: usize = 4;

/// Bytes of the longest integer: a marker and 64 bits.
const MAX_INTEGER: usize = 9;

/// The longest text whose length fits into one byte.
const MAX_MESSAGE: usize = 255;

/// Writes a decision; times in whole seconds, rounded up, −1 for never. Put together on the stack, then added in one go.
#[inline]
pub(super) fn decided(out: &mut Vec<u8>, decision: &Decision) {
    const HEAD: usize = PREFIX + 3;
    let saturated = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut frame = [0; HEAD + 4 * MAX_INTEGER];
    frame[PREFIX..HEAD].copy_from_slice(&[0x96, 0xc3, u8::from(decision.allowed)]);
    let mut len = HEAD;
    for value in [
        saturated(decision.limit),
        saturated(decision.remaining),
        decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs())),
        saturated(decision.reset_after.ceil_secs()),
    ] {
        len += integer(&mut frame[len..], value);
    }
    let body = u32::try_from(len - PREFIX).unwrap_or(u32::MAX);
    frame[..PREFIX].copy_from_slice(&body.to_be_bytes());
    out.extend_from_slice(&frame[..len]);
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

/// Writes an answer that is a map.
pub(super) fn map(out: &mut Vec<u8>, write: impl FnOnce(&mut PackWriter<'_>)) {
    let start = begin(out);
    write(&mut PackWriter(out));
    end(out, start);
}

/// Writes values at the end of a buffer.
#[derive(Debug)]
pub(super) struct PackWriter<'a>(&'a mut Vec<u8>);

impl PackWriter<'_> {
    /// Writes the head of a map of at most 15 pairs, which follow.
    pub(super) fn map_of(&mut self, len: usize) {
        self.0.push(0x80 | u8::try_from(len).unwrap_or(0x0f) & 0x0f);
    }

    /// Writes the head of an array of so many values, which follow.
    pub(super) fn array_of(&mut self, len: usize) {
        match u8::try_from(len) {
            Ok(small @ ..=15) => self.0.push(0x90 | small),
            _ => {
                self.0.push(0xdd);
                self.0.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
    }

    /// Writes a text of at most 255 bytes: all that is written here has fewer.
    pub(super) fn text(&mut self, text: &str) {
        let shown = &text[..text.floor_char_boundary(MAX_MESSAGE)];
        match u8::try_from(shown.len()) {
            Ok(small @ ..=31) => self.0.push(0xa0 | small),
            len => self.0.extend_from_slice(&[0xd9, len.unwrap_or(u8::MAX)]),
        }
        self.0.extend_from_slice(shown.as_bytes());
    }

    /// Writes a text, or nil.
    pub(super) fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.0.push(0xc0),
        }
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.0.push(0xc2 | u8::from(value));
    }

    /// Writes a number, saturated at 2^63 − 1.
    pub(super) fn whole(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn integer(&mut self, value: i64) {
        let mut bytes = [0; MAX_INTEGER];
        let len = integer(&mut bytes, value);
        self.0.extend_from_slice(&bytes[..len]);
    }
}

fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; PREFIX]);
    out.len()
}

fn end(out: &mut [u8], start: usize) {
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start - PREFIX..start].copy_from_slice(&len.to_be_bytes());
}

/// Writes an integer in as few bytes as possible, and returns how many.
#[inline]
fn integer(out: &mut [u8], value: i64) -> usize {
    // Most numbers are small, and a small number is its own marker; so is a small negative.
    if (-32..=0x7f).contains(&value) {
        out[0] = value.to_be_bytes()[7];
        return 1;
    }
    let bytes = value.to_be_bytes();
    let (marker, width) = match value {
        0..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        ..0 => (0xd3, 8),
    };
    out[0] = marker;
    out[1..1 + width].copy_from_slice(&bytes[8 - width..]);
    1 + width
}

#[cfg(test)]
mod tests {
    use ratekeeper::Nanos;

    use super::super::reader::{PackReader, PackValue};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for number in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, i64::MAX, -1, -32, -33, i64::MIN] {
            let mut out = [0; MAX_INTEGER];
            let len = integer(&mut out, number);
            let mut reader = PackReader::new(&out[..len]);
            assert_eq!(reader.value(), Ok(PackValue::Integer(number)));
            assert_eq!(reader.left(), 0);
        }
    }

    #[test]
    fn maps_are_read_as_they_were_written() {
        let long = "l".repeat(200);
        let mut out = Vec::new();
        map(&mut out, |writer| {
            writer.map_of(2);
            writer.text("a");
            writer.bool(true);
            writer.text(&long);
            writer.array_of(20);
            (0..19).for_each(|_| writer.whole(u64::MAX));
            writer.optional(None);
        });
        assert_eq!(u32::from_be_bytes(*out.first_chunk().unwrap()) as usize, out.len() - PREFIX);
        let mut reader = PackReader::new(&out[PREFIX..]);
        let mut next = || reader.value().unwrap();
        assert_eq!([next(), next()], [PackValue::Map(2), PackValue::Bytes(b"a")]);
        assert_eq!([next(), next()], [PackValue::Bool(true), PackValue::Bytes(long.as_bytes())]);
        assert_eq!(next(), PackValue::Array(20));
        assert!((0..19).all(|_| next() == PackValue::Integer(i64::MAX)));
        assert_eq!((next(), reader.left()), (PackValue::Nil, 0));
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
