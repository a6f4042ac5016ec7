//! Maps to requests by the names of plans and about holds.

use ratekeeper::Nanos;
use ratekeeper::keeper::MAX_PLANS;

use super::body::{BodyError, wrong};
use super::reader::{PackReader, PackValue};
use super::verb::PackVerb;
use crate::request::{HoldFields, NamedUnits, PlanFields, RequestError, RequestLimits, WireRequest};
use crate::secret::AdminRight;

/// The fields of a map; what was left out is none.
#[derive(Debug, Default)]
pub(super) struct VerbBody<'a> {
    key: &'a [u8],
    id: &'a [u8],
    /// The names of plans, and where the list of them ends.
    plans: [&'a str; MAX_PLANS],
    named: usize,
    cost: Option<u64>,
    units: NamedUnits<'a>,
    age_ms: Option<u64>,
    lease_ms: Option<u64>,
    pub(super) each: bool,
}

/// What a whole number must be.
const WHOLE: &str = "must be a whole number from 0 to 9223372036854775807";

impl<'a> VerbBody<'a> {
    /// Reads a map. Allocates nothing unless something is wrong.
    pub(super) fn read(verb: PackVerb, bytes: &'a [u8]) -> Result<Self, BodyError> {
        let mut reader = PackReader::new(bytes);
        let PackValue::Map(len) = reader.value()? else { return wrong("a request by plans is a map") };
        let mut body = VerbBody::default();
        let mut seen: u16 = 0;
        for _ in 0..len {
            let PackValue::Bytes(name) = reader.value()? else {
                return wrong("the name of a field is a string");
            };
            let fields = verb.fields();
            let Some(at) = fields.iter().position(|field| field.as_bytes() == name) else {
                let shown = name.get(..32).unwrap_or(name).escape_ascii();
                return wrong(format!("field: `{shown}`; this cmd has {}", fields.join(", ")));
            };
            if seen >> at & 1 == 1 {
                return wrong(format!("{}: named twice; say it once", fields[at]));
            }
            seen |= 1 << at;
            let value = reader.value()?;
            body.take(fields[at], value, &mut reader)?;
        }
        if reader.left() > 0 {
            return wrong("bytes after the request");
        }
        body.units = body.units.instead_of(body.cost)?;
        Ok(body)
    }

    fn take(
        &mut self,
        field: &'static str,
        value: PackValue<'a>,
        reader: &mut PackReader<'a>,
    ) -> Result<(), BodyError> {
        match (field, value) {
            ("cmd", value) => reader.skip_within(value)?,
            (_, PackValue::Nil) => {}
            ("key", PackValue::Bytes(key)) => self.key = key,
            ("id", PackValue::Bytes(id)) => self.id = id,
            ("plan" | "plans", _) if self.named > 0 => {
                return wrong("plans: together with `plan`; say one of them");
            }
            ("plan", PackValue::Bytes(name)) => self.plan(name)?,
            ("plans", PackValue::Array(0)) => {
                return wrong("plans: empty; name at least one, or leave it out");
            }
            ("plans", PackValue::Array(len)) => {
                for _ in 0..len {
                    let PackValue::Bytes(name) = reader.value()? else { return wrong(NAMES) };
                    self.plan(name)?;
                }
            }
            ("plan" | "plans", _) => return wrong(NAMES),
            ("cost", PackValue::Integer(value)) => self.cost = Some(whole("cost", value)?),
            ("age_ms", PackValue::Integer(value)) => self.age_ms = Some(whole("age_ms", value)?),
            ("lease_ms", PackValue::Integer(value)) => self.lease_ms = Some(whole("lease_ms", value)?),
            ("costs", PackValue::Map(len)) => {
                for _ in 0..len {
                    let unit = match reader.value()? {
                        PackValue::Bytes(unit) => std::str::from_utf8(unit).ok(),
                        _ => None,
                    };
                    match (unit, reader.value()?) {
                        (Some(unit), PackValue::Integer(amount)) => {
                            self.units.push(unit, whole(unit, amount)?)?
                        }
                        (Some(unit), _) => return wrong(format!("{}: {WHOLE}", unit.escape_debug())),
                        (None, _) => return wrong("costs: the name of a unit is a string"),
                    }
                }
            }
            ("each", PackValue::Bool(each)) => self.each = each,
            ("key" | "id", _) => return wrong(format!("{field}: must be a string or bytes")),
            ("costs", _) => return wrong("costs: must be a map of units and whole numbers"),
            ("each", _) => return wrong("each: must be true or false"),
            _ => return wrong(format!("{field}: {WHOLE}")),
        }
        Ok(())
    }

    fn plan(&mut self, name: &'a [u8]) -> Result<(), BodyError> {
        let Ok(name) = std::str::from_utf8(name) else { return wrong(NAMES) };
        let Some(free) = self.plans.get_mut(self.named) else {
            return wrong(format!("plans: more than {MAX_PLANS}; a request is held to at most {MAX_PLANS}"));
        };
        *free = name;
        self.named += 1;
        Ok(())
    }

    /// Returns the request that the fields of this verb mean.
    pub(super) fn check(
        &'a self,
        verb: PackVerb,
        limits: &RequestLimits,
        right: AdminRight,
    ) -> Result<WireRequest<'a>, RequestError> {
        let (key, cost, units) = (self.key, self.cost, self.units.as_slice());
        let lease = self.lease_ms.map(Nanos::from_millis);
        match verb {
            PackVerb::Plans(verb) => {
                let (plans, charged_ago) = (&self.plans[..self.named], self.age_ms.map(Nanos::from_millis));
                let each = self.each;
                PlanFields { key, plans, quota: None, cost, units, charged_ago, lease, each }
                    .check(verb, limits, right)
            }
            PackVerb::Holds(verb) => HoldFields { key, id: self.id, cost, units, lease }.check(verb),
        }
    }
}

/// What the names of plans must be.
const NAMES: &str = "plans: must be a list of strings, and `plan` a string";

fn whole(name: &str, value: i64) -> Result<u64, BodyError> {
    u64::try_from(value).or_else(|_| wrong(format!("{}: {value}; {WHOLE}", name.escape_debug())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::{HoldVerb, PlanVerb};
    use crate::secret::Admin;

    fn read(cmd: u8, tail: &[u8]) -> Result<Vec<u8>, String> {
        // As many entries as the tail has, which begins with their number.
        let bytes = [&[0x82 + tail[0]][..], b"\xa3cmd", &[cmd], b"\xa3key\xa1k", &tail[1..]].concat();
        let verb = PackVerb::find(cmd.into()).unwrap();
        VerbBody::read(verb, &bytes).map(|body| body.key.to_vec()).map_err(|BodyError(message)| message)
    }

    #[test]
    fn each_verb_has_its_own_fields() {
        for cmd in 2..=10 {
            assert_eq!(read(cmd, b"\0"), Ok(b"k".to_vec()), "{cmd}");
            let unknown = read(cmd, b"\x01\xa5burst\x01").unwrap_err();
            assert!(unknown.starts_with("field: `burst`; this cmd has cmd, key, "), "{unknown}");
        }
        assert!(PackVerb::find(1).is_none() && PackVerb::find(11).is_none());
        for (cmd, tail, says) in [
            (2, &b"\x01\xa3key\xa1j"[..], "key: named twice; say it once"),
            (2, b"\x01\xa5costs\x81\xa1t\xff", "t: -1; must be a whole number from 0 to 9223372036854775807"),
            (
                2,
                b"\x01\xa5costs\x81\xa1t\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
                "t: must be a whole number from",
            ),
            (2, b"\x01\xa5costs\x01", "costs: must be a map of units and whole numbers"),
            (2, b"\x01\xa5costs\x82\xa1t\x01\xa1t\x02", "t: named twice; say each unit once"),
            (
                2,
                b"\x01\xa5costs\x85\xa1a\x01\xa1b\x01\xa1c\x01\xa1d\x01\xa1e\x01",
                "units: 5; a request names at most",
            ),
            (2, b"\x02\xa4cost\x01\xa5costs\x81\xa1t\x01", "costs: together with `cost`; "),
            (2, b"\x02\xa4plan\xa1p\xa5plans\x91\xa1p", "plans: together with `plan`; "),
            (2, b"\x01\xa5plans\x90", "plans: empty; "),
            (2, b"\x01\xa5plans\x99\xa1p\xa1p\xa1p\xa1p\xa1p\xa1p\xa1p\xa1p\xa1p", "plans: more than 8; "),
            (2, b"\x01\xa5plans\x91\x01", "plans: must be a list of strings"),
            (3, b"\x01\xa4each\x01", "each: must be true or false"),
            (7, b"\x01\xa8lease_ms\xff", "lease_ms: -1; must be a whole number"),
            (8, b"\x01\xa2id\x01", "id: must be a string or bytes"),
            (2, b"\0\x01", "bytes after the request"),
            (2, b"\x01\xa4cost", "malformed MessagePack"),
        ] {
            let said = read(cmd, tail).unwrap_err();
            assert!(said.starts_with(says), "{said} instead of {says}");
        }
        assert!(read(2, b"\x03\xa4cost\xc0\xa5costs\xc0\xa4each\xc3").is_ok(), "nil is left out");
    }

    #[test]
    fn what_is_read_is_what_is_asked_for() {
        let bytes = b"\x85\xa3cmd\x07\xa3key\xa1k\xa4plan\xa3llm\xa5costs\x81\xa6tokens\x3a\xa8lease_ms\x64";
        let verb = PackVerb::Plans(PlanVerb::Hold);
        let body = VerbBody::read(verb, bytes).map_err(|BodyError(message)| message).unwrap();
        let Ok(WireRequest::Hold(charge, lease)) =
            body.check(verb, &RequestLimits::NONE, Ok(Admin::for_test()))
        else {
            panic!()
        };
        assert_eq!((charge.amounts.units(), lease), (&[("tokens", 58)][..], Nanos::from_millis(100)));
        let verb = PackVerb::Holds(HoldVerb::Cancel);
        let id = b"\x83\xa3cmd\x09\xa3key\xa1k\xa2id\xd9\x200123456789abcdef0123456789abcdef";
        let body = VerbBody::read(verb, id).map_err(|BodyError(message)| message).unwrap();
        assert!(matches!(
            body.check(verb, &RequestLimits::NONE, Ok(Admin::for_test())),
            Ok(WireRequest::Cancel(_))
        ));
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn no_bytes_make_it_panic(cmd in 2..=10i64, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let verb = PackVerb::find(cmd).unwrap();
            let _ = VerbBody::read(verb, &bytes).map(|body| body.check(verb, &RequestLimits::NONE, Ok(Admin::for_test())).is_ok());
        }
    }
}
