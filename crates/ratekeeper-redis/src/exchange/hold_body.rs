//! What is remembered of a hold: in its body what it has of which rules, and around that what becomes of it.
//!
//! `scripts/holds.lua` says how it is written; numbers are little-endian.

use ratekeeper::Timestamp;
use ratekeeper::port::HoldState;

use super::numbers::write_natural;

/// What a hold has: of each rule so much, in the order of its plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldContents {
    pub(crate) plans: Vec<String>,
    pub(crate) rules: Vec<BodyRule>,
}

/// What a hold has of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyRule {
    /// The position of its plan.
    pub(crate) plan: u8,
    pub(crate) kind: BodyKind,
    /// Its place among those in shadow, counted from one; zero if it was not.
    pub(crate) flag: u8,
    /// What all holds have of it is summed up.
    pub(crate) is_bounded: bool,
    /// The number of the rule's identifier.
    pub(crate) id: u64,
    pub(crate) amount: u64,
}

/// What becomes of what a hold has of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// A rate, which stays charged when the lease runs out.
    Rate,
    /// A place in flight.
    Place,
    /// A rate that is given back when the lease runs out.
    Refunded,
}

/// Bytes of a rule.
const RULE: usize = 28;

const GIGA: u64 = 1_000_000_000;

impl HoldContents {
    /// Returns the bytes; none if there are too many rules, or a name is too long.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(2 + RULE * self.rules.len() + 16 * self.plans.len());
        bytes.push(u8::try_from(self.rules.len()).ok()?);
        for rule in &self.rules {
            bytes.extend([rule.plan, rule.kind as u8, rule.flag, rule.is_bounded.into()]);
            bytes.extend(rule.id.to_le_bytes());
            write_natural(rule.amount, &mut bytes);
        }
        bytes.push(u8::try_from(self.plans.len()).ok()?);
        for plan in &self.plans {
            bytes.push(u8::try_from(plan.len()).ok()?);
            bytes.extend_from_slice(plan.as_bytes());
        }
        Some(bytes)
    }

    /// Reads the bytes; none if they are no body.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = HoldBytes(bytes);
        let mut rules = Vec::new();
        for _ in 0..bytes.byte()? {
            let [plan, kind, flag, is_bounded] = bytes.array()?;
            rules.push(BodyRule {
                plan,
                kind: match kind {
                    0 => BodyKind::Rate,
                    1 => BodyKind::Place,
                    2 => BodyKind::Refunded,
                    _ => return None,
                },
                flag,
                is_bounded: is_bounded == 1,
                id: u64::from_le_bytes(bytes.array()?),
                amount: bytes.natural()?,
            });
        }
        let mut plans = Vec::new();
        for _ in 0..bytes.byte()? {
            let size = bytes.byte()?.into();
            plans.push(str::from_utf8(bytes.take(size)?).ok()?.to_owned());
        }
        bytes.0.is_empty().then_some(HoldContents { plans, rules })
    }
}

/// The record of a live hold.
#[derive(Debug)]
pub(crate) struct LiveHold<'r> {
    pub(crate) lease_end: Timestamp,
    pub(crate) charged_at: Timestamp,
    pub(crate) body: &'r [u8],
}

impl<'r> LiveHold<'r> {
    /// Reads a record; none if it is not that of a live hold.
    pub(crate) fn read(record: &'r [u8]) -> Option<Self> {
        let mut bytes = HoldBytes(record);
        if bytes.byte()? != b'L' {
            return None;
        }
        let (lease_end, charged_at) = (bytes.micros()?, bytes.instant()?);
        let shadows = bytes.byte()?.into();
        bytes.take(shadows)?;
        Some(LiveHold { lease_end, charged_at, body: bytes.0 })
    }
}

/// Returns the records of holds that have lapsed, each with its length before it.
pub(crate) fn lapsed_holds(mut noted: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((size, rest)) = noted.split_first_chunk::<4>()
        && let Ok(size) = usize::try_from(u32::from_le_bytes(*size))
        && size <= rest.len()
    {
        let (record, after) = noted.split_at(4 + size);
        records.push(record);
        noted = after;
    }
    records
}

/// The record of a hold that has ended: all that was told then.
#[derive(Debug)]
pub(crate) struct EndedHold<'r> {
    pub(crate) state: HoldState,
    pub(crate) lease_end: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) charged: &'r [u8],
    pub(crate) body: &'r [u8],
    pub(crate) spent: &'r [u8],
    pub(crate) sums: &'r [u8],
    /// The states of each group; none if there was none.
    pub(crate) told: Vec<Option<&'r [u8]>>,
}

impl<'r> EndedHold<'r> {
    /// Reads a record; none if it is not that of a hold that has ended.
    pub(crate) fn read(record: &'r [u8]) -> Option<Self> {
        let mut bytes = HoldBytes(record);
        let state = match bytes.byte()? {
            b'S' => HoldState::Settled,
            b'C' => HoldState::Cancelled,
            _ => return None,
        };
        let (lease_end, now) = (bytes.micros()?, bytes.instant()?);
        let groups = bytes.size()?;
        let sizes: [Option<usize>; 4] = [bytes.size()?, bytes.size()?, bytes.size()?, bytes.size()?];
        let told: Option<Vec<Option<usize>>> = (0..groups?).map(|_| bytes.size()).collect();
        let [charged, body, spent, sums] = sizes;
        let (charged, body) = (bytes.take(charged?)?, bytes.take(body?)?);
        let (spent, sums) = (bytes.take(spent?)?, bytes.take(sums?)?);
        let told = told?.into_iter().map(|size| match size {
            Some(size) => bytes.take(size).map(Some),
            None => Some(None),
        });
        let told = told.collect::<Option<_>>()?;
        Some(EndedHold { state, lease_end, now, charged, body, spent, sums, told })
    }
}

/// Bytes that are read from the front.
pub(super) struct HoldBytes<'r>(pub(super) &'r [u8]);

impl<'r> HoldBytes<'r> {
    pub(super) fn take(&mut self, size: usize) -> Option<&'r [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn double(&mut self) -> Option<f64> {
        self.array().map(f64::from_le_bytes)
    }

    /// Reads a double as an instant in microseconds.
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates at both ends")]
    fn micros(&mut self) -> Option<Timestamp> {
        self.double().map(|micros| Timestamp::from_nanos((micros as i64).saturating_mul(1_000)))
    }

    /// Reads a pair of doubles as a natural number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates at both ends"
    )]
    pub(super) fn natural(&mut self) -> Option<u64> {
        let (high, low) = (self.double()?, self.double()?);
        Some((high as u64).saturating_mul(GIGA).saturating_add(low as u64))
    }

    /// Reads a pair of doubles as an instant.
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates at both ends")]
    pub(super) fn instant(&mut self) -> Option<Timestamp> {
        let (high, low) = (self.double()?, self.double()?);
        let nanos = (high as i64).saturating_mul(GIGA.cast_signed()).saturating_add(low as i64);
        Some(Timestamp::from_nanos(nanos))
    }

    /// Reads the size of something, or that there is none of it.
    fn size(&mut self) -> Option<Option<usize>> {
        match u32::from_le_bytes(self.array()?) {
            u32::MAX => Some(None),
            size => usize::try_from(size).ok().map(Some),
        }
    }
}

/// Reads a pair of doubles as a natural number; none if it is something else.
pub(crate) fn natural(bytes: &[u8]) -> Option<u64> {
    (bytes.len() == 16).then(|| HoldBytes(bytes).natural()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_as_it_was_written() {
        let rule = |id, amount| BodyRule {
            plan: 1,
            kind: BodyKind::Refunded,
            flag: 2,
            is_bounded: true,
            id,
            amount,
        };
        let body = HoldContents {
            plans: vec!["a".into(), "b:c".into()],
            rules: vec![rule(7, 0), rule(u64::MAX, i64::MAX.cast_unsigned())],
        };
        let bytes = body.encode().unwrap();
        assert_eq!(HoldContents::decode(&bytes), Some(body));
        for cut in 0..bytes.len() {
            assert_eq!(HoldContents::decode(&bytes[..cut]), None);
        }
        assert!(EndedHold::read(&bytes).is_none() && LiveHold::read(b"L").is_none());
    }

    #[test]
    fn what_is_cut_off_is_no_record() {
        let mut record = b"S".to_vec();
        record.extend([1e15, 1e6, 7.0].into_iter().flat_map(f64::to_le_bytes));
        record.extend([2, 1, 2, 3, 4, u32::MAX, 5].into_iter().flat_map(u32::to_le_bytes));
        record.extend_from_slice(b"abbcccddddeeeee");
        let ended = EndedHold::read(&record).unwrap();
        assert_eq!(ended.now, Timestamp::from_nanos(1_000_000_000_000_007));
        assert_eq!([ended.charged, ended.body, ended.spent, ended.sums], [&b"a"[..], b"bb", b"ccc", b"dddd"]);
        assert_eq!(ended.told, [None, Some(&b"eeeee"[..])]);
        for cut in 0..record.len() {
            assert!(EndedHold::read(&record[..cut]).is_none(), "{cut}");
        }
    }
}
