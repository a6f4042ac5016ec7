//! The bodies of requests by the names of plans and about holds: one shape, of which each verb has its own fields.

use std::borrow::Cow;
use std::fmt;

use ratekeeper::{Nanos, Unit};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::body::{FieldKind, blame, integer, malformed};
use super::problem::Problem;
use crate::request::{HoldFields, NamedUnits, PlanFields, PlanVerb};

const RESET: &[&str] = &["key", "plan", "plans", "quota", "cost"];
const CHARGE: &[&str] = &["key", "plan", "plans", "quota", "cost", "costs", "each"];
const REFUND: &[&str] = &["key", "plan", "plans", "quota", "cost", "costs", "age_ms"];
const HOLD: &[&str] = &["key", "plan", "plans", "quota", "cost", "costs", "each", "lease_ms"];
const SETTLE: &[&str] = &["key", "cost", "costs", "each"];
const EXTEND: &[&str] = &["key", "lease_ms", "each"];

/// The body of any of these requests; what was left out, or is none of its verb, is none.
#[derive(Debug, Default)]
pub(super) struct PlanBody<'a> {
    key: String,
    plan: Option<String>,
    plans: Option<Vec<String>>,
    quota: Option<String>,
    cost: Option<u64>,
    costs: Option<JsonCosts<'a>>,
    age_ms: Option<u64>,
    lease_ms: Option<u64>,
    pub(super) each: bool,
}

impl<'a> PlanBody<'a> {
    /// Reads the body of a request with this verb.
    pub(super) fn read(verb: PlanVerb, bytes: &'a [u8]) -> Result<Self, Problem> {
        let fields = match verb {
            PlanVerb::Acquire | PlanVerb::Peek | PlanVerb::Debit => CHARGE,
            PlanVerb::Refund => REFUND,
            PlanVerb::Hold => HOLD,
            PlanVerb::Reset => RESET,
        };
        read(fields, bytes)
    }

    /// Reads the body of a request to settle a hold.
    pub(super) fn read_settled(bytes: &'a [u8]) -> Result<Self, Problem> {
        read(SETTLE, bytes)
    }

    /// Reads the body of a request to extend a hold.
    pub(super) fn read_extended(bytes: &'a [u8]) -> Result<Self, Problem> {
        read(EXTEND, bytes)
    }

    /// Returns the names of the plans.
    ///
    /// # Errors
    ///
    /// There are both `plan` and `plans`, or `plans` is empty: to name none is not to name all, which is said by leaving
    /// both out.
    pub(super) fn names(&self) -> Result<Vec<&str>, Problem> {
        match (&self.plan, &self.plans) {
            (Some(_), Some(_)) => {
                Err(Problem::field("plans", "plans: together with `plan`; say one of them"))
            }
            (None, Some(plans)) if plans.is_empty() => {
                Err(Problem::field("plans", "plans: empty; name at least one, or leave it out"))
            }
            (plan, plans) => Ok(plan.iter().chain(plans.iter().flatten()).map(String::as_str).collect()),
        }
    }

    /// Returns the units that are named.
    ///
    /// # Errors
    ///
    /// They cannot be asked for, or there is a plain cost, too.
    pub(super) fn units(&self) -> Result<NamedUnits<'_>, Problem> {
        let mut units = NamedUnits::default();
        for (unit, amount) in self.costs.iter().flat_map(|costs| &costs.named).flatten() {
            units.push(unit, *amount)?;
        }
        Ok(units.instead_of(self.cost)?)
    }

    /// Returns the fields of the request, with these [names](PlanBody::names) and [units](PlanBody::units).
    pub(super) fn fields<'f>(&'f self, names: &'f [&'f str], units: &'f NamedUnits<'f>) -> PlanFields<'f> {
        PlanFields {
            key: self.key.as_bytes(),
            plans: names,
            quota: self.quota.as_deref(),
            cost: self.cost,
            units: units.as_slice(),
            charged_ago: self.age_ms.map(Nanos::from_millis),
            lease: self.lease_ms.map(Nanos::from_millis),
            each: self.each,
        }
    }

    /// Returns the fields of a request about the hold of this id.
    pub(super) fn held<'f>(&'f self, id: &'f str, units: &'f NamedUnits<'f>) -> HoldFields<'f> {
        HoldFields {
            key: self.key.as_bytes(),
            id: id.as_bytes(),
            cost: self.cost,
            units: units.as_slice(),
            lease: self.lease_ms.map(Nanos::from_millis),
        }
    }
}

fn read<'a>(fields: &'static [&'static str], bytes: &'a [u8]) -> Result<PlanBody<'a>, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let body = BodyOf(fields).deserialize(&mut json).and_then(|body| json.end().map(|()| body));
    body.map_err(|error| {
        if !error.is_data() {
            return malformed(&error);
        }
        let kinds: Vec<_> = fields.iter().map(|name| (*name, kind(name))).collect();
        blame(&kinds, bytes, &error)
    })
}

fn kind(name: &str) -> FieldKind {
    match name {
        "plans" => FieldKind::Texts,
        "cost" | "age_ms" | "lease_ms" => FieldKind::Whole,
        "costs" => FieldKind::Amounts,
        "each" => FieldKind::Flag,
        _ => FieldKind::Text,
    }
}

/// A body that has these fields and no others.
struct BodyOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for BodyOf {
    type Value = PlanBody<'de>;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodyOf {
    type Value = PlanBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PlanBody<'de>, A::Error> {
        let mut body = PlanBody::default();
        let mut key: Option<String> = None;
        let mut seen: u16 = 0;
        while let Some(Text(name)) = map.next_key()? {
            let Some(at) = self.0.iter().position(|field| *field == name) else {
                return Err(Error::unknown_field(&name, self.0));
            };
            let field = self.0[at];
            if seen >> at & 1 == 1 {
                return Err(Error::duplicate_field(field));
            }
            seen |= 1 << at;
            match field {
                "key" => key = map.next_value()?,
                "plan" => body.plan = map.next_value()?,
                "plans" => body.plans = map.next_value()?,
                "quota" => body.quota = map.next_value()?,
                "cost" => body.cost = map.next_value::<Whole>()?.0,
                "costs" => body.costs = map.next_value()?,
                "age_ms" => body.age_ms = map.next_value::<Whole>()?.0,
                "lease_ms" => body.lease_ms = map.next_value::<Whole>()?.0,
                _ => body.each = map.next_value::<Option<bool>>()?.unwrap_or(false),
            }
        }
        body.key = key.ok_or_else(|| Error::missing_field("key"))?;
        Ok(body)
    }
}

/// A text, borrowed unless it is written with escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A whole number, or null.
#[derive(Deserialize)]
struct Whole(#[serde(deserialize_with = "integer")] Option<u64>);

/// How much of which unit: one more than there may be, so that too many are seen without being kept.
#[derive(Debug, Default)]
struct JsonCosts<'a> {
    named: [Option<(Cow<'a, str>, u64)>; Unit::MOST_NAMED + 1],
}

impl<'de> Deserialize<'de> for JsonCosts<'de> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Costs;

        impl<'de> Visitor<'de> for Costs {
            type Value = JsonCosts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of units and whole numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut costs = JsonCosts::default();
                for free in &mut costs.named {
                    let Some(Text(unit)) = map.next_key()? else { return Ok(costs) };
                    let Whole(Some(amount)) = map.next_value()? else {
                        return Err(de::Error::custom("no amount"));
                    };
                    *free = Some((unit, amount));
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(costs)
            }
        }

        value.deserialize_map(Costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said = Option<(Option<u64>, Vec<(String, u64)>, Option<Nanos>)>;

    fn plan(verb: PlanVerb, body: &str) -> Said {
        let body = PlanBody::read(verb, body.as_bytes()).ok()?;
        let units = body.units().ok()?;
        let fields = body.fields(&[], &units);
        let units = units.as_slice().iter().map(|(unit, amount)| ((*unit).to_owned(), *amount));
        Some((fields.cost, units.collect(), fields.charged_ago))
    }

    #[test]
    fn each_verb_has_its_own_fields() {
        let (acquire, refund) = (PlanVerb::Acquire, PlanVerb::Refund);
        assert_eq!(plan(acquire, r#"{"key":"k","cost":-1}"#), None);
        for age in ["1", "-1", "null"] {
            for verb in [acquire, PlanVerb::Peek, PlanVerb::Debit] {
                let body = format!("{{\"key\":\"k\",\"age_ms\":{age}}}");
                let problem = PlanBody::read(verb, body.as_bytes()).unwrap_err();
                let expected = "unknown field `age_ms`, expected one of `key`, `plan`, `plans`, `quota`, `cost`, `costs`, `each`";
                let detail = format!("{expected} at line 1 column 19");
                assert_eq!(problem, Problem::field("age_ms", detail), "{verb:?} {age}");
            }
        }
        let two = br#"{"key":"k","prefix":"p","all":true}"#;
        let problem = PlanBody::read(PlanVerb::Reset, two).unwrap_err();
        let named = "unknown field `prefix`, expected one of `key`, `plan`, `plans`, `quota`, `cost` at line 1 column 19";
        assert_eq!(problem, Problem::field("prefix", named), "the text and the field are about the same");
        let millis = |millis| Some((None, vec![], Some(Nanos::from_millis(millis))));
        assert_eq!(plan(refund, r#"{"key":"k"}"#), Some((None, vec![], None)));
        assert_eq!(plan(refund, r#"{"key":"k","age_ms":1.5e3}"#), millis(1_500));
        assert_eq!(plan(refund, r#"{"key":"k","age_ms":18446744073709551615}"#), millis(u64::MAX));
        assert_eq!(plan(refund, r#"{"key":"k","age_ms":-1}"#), None);
        let most = r#"{"key":"k","cost":18446744073709551615}"#;
        assert_eq!(plan(acquire, most), Some((Some(u64::MAX), vec![], None)));
        assert!(PlanBody::read_extended(br#"{"key":"k","lease_ms":5}"#).is_ok());
        assert!(PlanBody::read_settled(br#"{"key":"k","lease_ms":5}"#).is_err());
        for wrong in [r#"{"key":"k","key":"k"}"#, r#"{"key":"k"}x"#, "[]", r#"{"key":null}"#, "{}"] {
            assert_eq!(plan(acquire, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn costs_are_at_most_four_and_each_once() {
        let acquire = |costs: &str| plan(PlanVerb::Acquire, &format!("{{\"key\":\"k\",\"costs\":{costs}}}"));
        let units = |costs| acquire(costs).map(|(_, units, _)| units);
        let named = |list: &[(&str, u64)]| {
            Some(list.iter().map(|(unit, amount)| ((*unit).to_owned(), *amount)).collect::<Vec<_>>())
        };
        assert_eq!(units(r#"{"requests":1,"tokens":5.2e3}"#), named(&[("requests", 1), ("tokens", 5_200)]));
        assert_eq!(units(r#"{"\u0074okens":9223372036854775807}"#), named(&[("tokens", (1 << 63) - 1)]));
        assert_eq!((units("{}"), units("null")), (named(&[]), named(&[])));
        for wrong in [
            r#"{"tokens":9223372036854775808}"#,
            r#"{"tokens":-1}"#,
            r#"{"tokens":null}"#,
            r#"{"tokens":"1"}"#,
            r#"{"tokens":1,"tokens":1}"#,
            r#"{"a":1,"b":1,"c":1,"d":1,"e":1}"#,
            r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":"x","g":[{}]}"#,
            "[1]",
            "1",
        ] {
            assert_eq!(units(wrong), None, "{wrong}");
        }
        assert_eq!(plan(PlanVerb::Acquire, r#"{"key":"k","cost":1,"costs":{"tokens":1}}"#), None, "both");
        let body = PlanBody::read(PlanVerb::Debit, br#"{"key":"k","costs":{"tokens":-1}}"#).unwrap_err();
        let says =
            "costs: must be an object of units, each with a whole number from 0 to 9223372036854775807";
        assert_eq!(body, Problem::field("costs", says));
    }
}
