//! Numbers as the protocol writes them.

/// A number on a line of its own, read one byte at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NumberLine {
    value: i64,
    digits: u8,
    negative: bool,
    ended: bool,
}

/// More digits than any length that could be meant; and nothing of so few overflows.
const MAX_DIGITS: u8 = 12;

impl NumberLine {
    /// Reads one more byte; returns the number when this byte ends its line.
    #[inline]
    pub(super) fn feed(&mut self, byte: u8) -> Result<Option<i64>, ()> {
        match byte {
            b'0'..=b'9' if !self.ended && self.digits < MAX_DIGITS => {
                self.value = self.value * 10 + i64::from(byte - b'0');
                self.digits += 1;
                Ok(None)
            }
            b'-' if self.digits == 0 && !self.negative && !self.ended => {
                self.negative = true;
                Ok(None)
            }
            b'\r' if self.digits > 0 && !self.ended => {
                self.ended = true;
                Ok(None)
            }
            b'\n' if self.ended => Ok(Some(if self.negative { -self.value } else { self.value })),
            _ => Err(()),
        }
    }
}

/// Returns the integer that an argument is: digits, with a minus sign or without, within 64 bits.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit < 10)?);
        // Towards the sign, because the least integer has no positive twin.
        let digit = if negative { -digit } else { digit };
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_within_64_bits_and_nothing_else() {
        let cases: [(&str, Option<i64>); 12] = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("007", Some(7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.0", None),
            (" 1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(integer(text.as_bytes()), expected, "{text:?}");
        }
    }
}
