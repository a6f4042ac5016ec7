//! One request as a line: `time key cost plans result [unit=amount…]`.
//!
//! ```text
//! 1761884055.342794596 8f14e45fceea167a 1 free allowed
//! 1761884055.342801733 user:42 1 free,llm denied tokens=58
//! 1761884055.342801733 user%2042 3 - allowed
//! ```
//!
//! The time is in seconds since the epoch. Of keys in clear, blanks, control characters and `%` are written as `%20`. A request
//! that brought its own quota has `-` for its plans.

use ratekeeper::Timestamp;
use ratekeeper::port::Request;

/// How a file of such lines begins.
pub(super) const HEADER: &str = "# ratekeeper record 1: time key cost plans result [unit=amount]\n";

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How the key of a line is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyText<'a> {
    /// By its hash.
    Hash(u64),
    /// As it is.
    Clear(&'a [u8]),
}

/// Writes a request that was asked then.
pub(super) fn write(
    at: Timestamp,
    key: KeyText<'_>,
    request: &Request<'_>,
    is_allowed: bool,
    out: &mut Vec<u8>,
) {
    let mut digits = itoa::Buffer::new();
    // Nothing was asked before the epoch.
    let nanos = u64::try_from(at.as_nanos()).unwrap_or(0);
    out.extend_from_slice(digits.format(nanos / NANOS_PER_SECOND).as_bytes());
    out.push(b'.');
    padded(nanos % NANOS_PER_SECOND, out);
    out.push(b' ');
    match key {
        KeyText::Hash(hash) => out.extend((0..16).rev().map(|digit| hex((hash >> (digit * 4)) & 15))),
        KeyText::Clear(key) => escape(key, out),
    }
    out.push(b' ');
    out.extend_from_slice(digits.format(request.cost.get()).as_bytes());
    out.push(b' ');
    let mut plans = request.rules.plans();
    match plans.next() {
        None => out.push(b'-'),
        Some(first) => {
            out.extend_from_slice(first.name().as_str().as_bytes());
            for plan in plans {
                out.push(b',');
                out.extend_from_slice(plan.name().as_str().as_bytes());
            }
        }
    }
    out.extend_from_slice(if is_allowed { b" allowed" } else { b" denied" });
    for (unit, amount) in request.units {
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        out.push(b'=');
        out.extend_from_slice(digits.format(*amount).as_bytes());
    }
    out.push(b'\n');
}

fn padded(nanos: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 9];
    let mut left = nanos;
    for digit in digits.iter_mut().rev() {
        *digit = hex(left % 10);
        left /= 10;
    }
    out.extend_from_slice(&digits);
}

fn hex(digit: u64) -> u8 {
    b"0123456789abcdef"[usize::try_from(digit & 15).unwrap_or(0)]
}

/// Writes a key as one word. Two keys are never the same word.
fn escape(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        match byte {
            0..=b' ' | b'%' | 0x7f => {
                out.extend([b'%', hex(u64::from(byte) >> 4), hex(u64::from(byte))]);
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{Amounts, Key, Plan, Quota, Rules};

    use super::*;

    #[test]
    fn a_line_says_who_asked_when_for_what() {
        let plan = Plan::parse("llm", "10/s; 100 tokens/s").unwrap();
        let quota: Quota = "1/s".parse().unwrap();
        let (at, tokens) = (Timestamp::from_nanos(1_761_884_055_042_794_596), [("tokens", 58)]);
        let line = |at, key: KeyText<'_>, request: &Request<'_>, is_allowed| {
            let mut out = Vec::new();
            write(at, key, request, is_allowed, &mut out);
            String::from_utf8(out).unwrap()
        };
        let key = Key::new("a b%\n\u{e9}").unwrap();
        let planned = Request::of(key, Rules::Plan(&plan), Amounts::of(&tokens));
        assert_eq!(
            line(at, KeyText::Clear(key.as_bytes()), &planned, true),
            "1761884055.042794596 a%20b%25%0aé 1 llm allowed tokens=58\n"
        );
        let own = Request::new(key, Rules::Quota(&quota), ratekeeper::Cost::new(3));
        assert_eq!(
            line(Timestamp::from_nanos(7), KeyText::Hash(0xab), &own, false),
            "0.000000007 00000000000000ab 3 - denied\n"
        );
    }
}
