//! From when until when a certificate is valid: the one thing that neither rustls nor its verifier tells.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::when::{SECONDS_PER_DAY, civil_from_days, days_from_civil, days_in_month};

/// Time before its end at which a certificate is warned about.
const SOON: i64 = 14 * SECONDS_PER_DAY;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// `[0]`, explicit: the version.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The validity of a certificate, both ends included, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// What an operator should know about a certificate at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Good,
    NotYet,
    EndsSoon,
    Expired,
}

impl Validity {
    /// Reads the validity of a certificate in DER form (RFC 5280, section 4.1); `None` if it is not one.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let mut outer = Der(certificate);
        let mut signed = Der(Der(outer.take(SEQUENCE)?).take(SEQUENCE)?);
        if signed.0.first() == Some(&VERSION) {
            signed.take(VERSION)?;
        }
        signed.take(INTEGER)?; // serial number
        signed.take(SEQUENCE)?; // algorithm of the signature
        signed.take(SEQUENCE)?; // issuer
        let mut ends = Der(signed.take(SEQUENCE)?);
        Some(Validity { not_before: ends.time()?, not_after: ends.time()? })
    }

    /// How a certificate stands at an instant.
    pub(super) fn standing(&self, now: i64) -> Standing {
        match () {
            () if now > self.not_after => Standing::Expired,
            () if now < self.not_before => Standing::NotYet,
            () if self.not_after - now < SOON => Standing::EndsSoon,
            () => Standing::Good,
        }
    }
}

/// Now, as certificates count.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Seconds since the epoch as RFC 3339 writes them.
pub(super) struct Instant(pub(super) i64);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(SECONDS_PER_DAY));
        let second = self.0.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Values of the distinguished encoding, one after the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The contents of the next value, which must be of this kind.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match usize::from(*first) {
            short @ 0..=0x7f => (short, rest),
            // So many bytes of length follow; no certificate needs more than three.
            long @ 0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(long - 0x80)?;
                (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        (*found == tag).then_some(contents)
    }

    /// The next value, which must be a time in one of the two forms.
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let text = self.take(tag)?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = digits(text, 2)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => digits(text, 4)?,
            _ => return None,
        };
        let (month, rest) = digits(rest, 2)?;
        let (day, rest) = digits(rest, 2)?;
        let (hour, rest) = digits(rest, 2)?;
        let (minute, rest) = digits(rest, 2)?;
        let (second, rest) = digits(rest, 2)?;
        let is_real = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && rest == b"Z";
        let days = days_from_civil(year, month, day);
        is_real.then_some(days * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second)
    }
}

/// A number of so many digits, and what comes after it.
fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let is_number = number.iter().all(u8::is_ascii_digit);
    let value = number.iter().fold(0, |value, digit| value * 10 + i64::from(digit.wrapping_sub(b'0')));
    is_number.then_some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate of a generator that others wrote, with these days as its ends.
    fn made(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, from.2);
        params.not_after = rcgen::date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn real_certificates_in_both_forms_of_time() {
        // Until 2049 the short form is used, afterwards the long one.
        let validity = Validity::of(&made((2024, 2, 29), (2049, 12, 31))).unwrap();
        assert_eq!(Instant(validity.not_before).to_string(), "2024-02-29T00:00:00Z");
        assert_eq!(Instant(validity.not_after).to_string(), "2049-12-31T00:00:00Z");
        let validity = Validity::of(&made((1970, 1, 1), (4096, 1, 1))).unwrap();
        assert_eq!(validity.not_before, 0);
        assert_eq!(Instant(validity.not_after).to_string(), "4096-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_cut_off_or_changed_is_never_misread() {
        let whole = made((2024, 1, 1), (2030, 1, 1));
        for len in 0..whole.len() {
            assert_eq!(Validity::of(&whole[..len]), None, "{len}");
        }
        for index in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[index] ^= 1 << bit;
                // Whatever it says, it does not panic.
                let _ = Validity::of(&changed);
            }
        }
    }

    #[test]
    fn standing() {
        let validity = Validity { not_before: 0, not_after: 100 * SECONDS_PER_DAY };
        for (day, expected) in
            [(-1, Standing::NotYet), (0, Standing::Good), (86, Standing::Good), (87, Standing::EndsSoon)]
        {
            assert_eq!(validity.standing(day * SECONDS_PER_DAY), expected, "{day}");
        }
        assert_eq!(validity.standing(validity.not_after), Standing::EndsSoon);
        assert_eq!(validity.standing(validity.not_after + 1), Standing::Expired);
    }
}
