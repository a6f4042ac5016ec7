//! Numbers as scripts read them.

use ratekeeper::Timestamp;

/// Writes a double as scripts read it.
pub(super) fn write_double(number: f64, into: &mut Vec<u8>) {
    into.extend_from_slice(&number.to_le_bytes());
}

/// Writes a natural number as a pair of doubles, which [`HoldBytes`](super::hold_body::HoldBytes) reads.
pub(super) fn write_natural(number: u64, into: &mut Vec<u8>) {
    write_pair(number.into(), into);
}

/// Writes an instant as a pair of doubles.
pub(super) fn write_instant(instant: Timestamp, into: &mut Vec<u8>) {
    write_pair(instant.as_nanos().into(), into);
}

/// Writes a whole number as a pair of doubles, `high * 1e9 + low`.
#[expect(clippy::cast_precision_loss, reason = "both are exact")]
fn write_pair(number: i128, into: &mut Vec<u8>) {
    const GIGA: i128 = 1_000_000_000;
    write_double(number.div_euclid(GIGA) as f64, into);
    write_double(number.rem_euclid(GIGA) as f64, into);
}
