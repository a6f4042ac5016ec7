//! From when until when a certificate is valid: the one thing that neither rustls nor its verifier tells.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Time before its end at which a certificate is warned about.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// `[0]`, explicit: the version.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The validity of a certificate, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: UtcTime,
    pub(super) not_after: UtcTime,
}

/// What an operator should know about a certificate at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateStanding {
    /// Valid, and for longer than [`SOON`].
    Good,
    /// Not valid yet.
    NotYet,
    /// Valid for less than [`SOON`].
    EndsSoon,
    /// No longer valid.
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

    /// Returns what an operator should know at this instant.
    pub(super) fn standing(&self, now: UtcTime) -> CertificateStanding {
        match () {
            () if now > self.not_after => CertificateStanding::Expired,
            () if now < self.not_before => CertificateStanding::NotYet,
            () if self.not_after.since(now) < SOON => CertificateStanding::EndsSoon,
            () => CertificateStanding::Good,
        }
    }
}

/// A date and time in UTC. Not a `jiff::Timestamp`: those end two hours before 9999-12-31T23:59:59Z, which RFC 5280 has
/// in certificates that never expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UtcTime(DateTime);

impl UtcTime {
    const EPOCH: Self = UtcTime(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));

    /// Returns the time now.
    pub(super) fn now() -> Self {
        UtcTime(TimeZone::UTC.to_datetime(Timestamp::now()))
    }

    /// Returns the time that has passed since an earlier one.
    pub(super) fn since(self, earlier: Self) -> SignedDuration {
        self.0.duration_since(earlier.0)
    }

    /// Returns the seconds since the epoch.
    pub(super) fn as_second(self) -> i64 {
        self.since(Self::EPOCH).as_secs()
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}Z", self.0)
    }
}

/// Values of the distinguished encoding, one after the other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns the contents of the next value, which must have this tag.
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

    /// Returns the next value, which must be a time in one of the two forms.
    fn time(&mut self) -> Option<UtcTime> {
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
        if rest != b"Z" {
            return None;
        }
        let part = |number: i16| i8::try_from(number).ok();
        let date =
            DateTime::new(year, part(month)?, part(day)?, part(hour)?, part(minute)?, part(second)?, 0);
        date.ok().map(UtcTime)
    }
}

/// Returns the number in the first `count` digits, and what comes after them.
fn digits(text: &[u8], count: usize) -> Option<(i16, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    if !number.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((number.iter().fold(0, |value, digit| value * 10 + i16::from(digit - b'0')), rest))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use test_support::certificates::{Certificate, LEAP_DAY, LONG_LIFE, ONE};

    use super::*;

    fn der(certificate: Certificate) -> Vec<u8> {
        CertificateDer::from_pem_slice(certificate.cert.as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn real_certificates_in_both_forms_of_time() {
        // Until 2049 the short form is used, afterwards the long one.
        let validity = Validity::of(&der(LEAP_DAY)).unwrap();
        assert_eq!(validity.not_before.to_string(), "2024-02-29T00:00:00Z");
        assert_eq!(validity.not_after.to_string(), "2049-12-31T00:00:00Z");
        let validity = Validity::of(&der(LONG_LIFE)).unwrap();
        assert_eq!(validity.not_before, UtcTime::EPOCH);
        assert_eq!(validity.not_after.to_string(), "4096-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_cut_off_or_changed_is_never_misread() {
        let whole = der(ONE);
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
    fn a_certificate_for_ever_is_read() {
        let mut time = Der(b"\x18\x0f99991231235959Z");
        assert_eq!(time.time().unwrap().to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(Der(b"\x18\x0f20230229000000Z").time(), None, "no such day");
    }

    #[test]
    fn standing() {
        let day = |day: i64| UtcTime(UtcTime::EPOCH.0 + SignedDuration::from_hours(24 * day));
        let validity = Validity { not_before: day(0), not_after: day(100) };
        for (at, expected) in [
            (-1, CertificateStanding::NotYet),
            (0, CertificateStanding::Good),
            (86, CertificateStanding::Good),
            (87, CertificateStanding::EndsSoon),
        ] {
            assert_eq!(validity.standing(day(at)), expected, "{at}");
        }
        assert_eq!(validity.standing(validity.not_after), CertificateStanding::EndsSoon);
        let after = UtcTime(validity.not_after.0 + SignedDuration::from_secs(1));
        assert_eq!(validity.standing(after), CertificateStanding::Expired);
    }
}
