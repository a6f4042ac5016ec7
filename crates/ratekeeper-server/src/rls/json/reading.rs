//! A request as JSON.
//!
//! As the mapping of protocol buffers wants it: fields in either spelling (`hitsAddend`, `hits_addend`), numbers as strings,
//! too, enums by name or by number, null for what is left out. A field that is not known, or comes twice, is refused.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use crate::rls::asked::{RlsDescriptor, RlsEntry, RlsOverride, RlsRequest};
use crate::rls::error::RlsError;
use crate::rls::unit::LimitUnit;

/// Reads a request.
///
/// # Errors
///
/// What is wrong with it, and where.
pub fn read_json(body: &[u8]) -> Result<RlsRequest, RlsJsonError> {
    if body.trim_ascii().is_empty() {
        return Err(RlsJsonError::Empty);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let request: RequestBody = object(&mut deserializer).map_err(RlsJsonError::Malformed)?;
    deserializer.end().map_err(RlsJsonError::Malformed)?;
    request.check_counts().map_err(RlsJsonError::TooMany)?;
    Ok(request.into())
}

/// Why a body is no request.
#[derive(Debug)]
#[non_exhaustive]
pub enum RlsJsonError {
    /// There is nothing in it.
    Empty,
    /// It is no JSON, or not that of a request.
    Malformed(serde_json::Error),
    /// It has more descriptors or entries than a request may have.
    TooMany(RlsError),
}

impl fmt::Display for RlsJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RlsJsonError::Empty => {
                f.write_str("the body is empty; send {\"domain\": …, \"descriptors\": [{\"entries\": […]}]}")
            }
            RlsJsonError::Malformed(error) => error.fmt(f),
            RlsJsonError::TooMany(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RlsJsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RlsJsonError::Empty => None,
            RlsJsonError::Malformed(error) => Some(error),
            RlsJsonError::TooMany(error) => Some(error),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestBody {
    #[serde(default, deserialize_with = "or_null")]
    domain: String,
    #[serde(default, deserialize_with = "or_null")]
    descriptors: Items<Object<DescriptorBody>, { RlsRequest::MAX_DESCRIPTORS }>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend", deserialize_with = "or_null")]
    hits_addend: Whole<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptorBody {
    #[serde(default, deserialize_with = "or_null")]
    entries: Items<Object<EntryBody>, { RlsDescriptor::MAX_ENTRIES }>,
    #[serde(default)]
    limit: Option<Object<OverrideBody>>,
    #[serde(default, rename = "hitsAddend", alias = "hits_addend")]
    hits_addend: Option<Whole<u64>>,
    #[serde(default, rename = "isNegativeHits", alias = "is_negative_hits", deserialize_with = "or_null")]
    is_negative_hits: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryBody {
    #[serde(default, deserialize_with = "or_null")]
    key: String,
    #[serde(default, deserialize_with = "or_null")]
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideBody {
    #[serde(default, rename = "requestsPerUnit", alias = "requests_per_unit", deserialize_with = "or_null")]
    requests_per_unit: Whole<u32>,
    #[serde(default, deserialize_with = "or_null")]
    unit: UnitNumber,
}

impl RequestBody {
    fn check_counts(&self) -> Result<(), RlsError> {
        let sent = self.descriptors.sent;
        if sent > RlsRequest::MAX_DESCRIPTORS {
            return Err(RlsError::TooManyDescriptors { sent });
        }
        let sent = |Object(body): &Object<DescriptorBody>| body.entries.sent;
        let mut entries = self.descriptors.kept.iter().map(sent).enumerate();
        match entries.find(|(_, sent)| *sent > RlsDescriptor::MAX_ENTRIES) {
            Some((descriptor, sent)) => Err(RlsError::TooManyEntries { descriptor, sent }),
            None => Ok(()),
        }
    }
}

impl From<RequestBody> for RlsRequest {
    fn from(RequestBody { domain, descriptors, hits_addend }: RequestBody) -> Self {
        let descriptors = descriptors.kept.into_iter().map(|Object(descriptor)| descriptor.into()).collect();
        RlsRequest { domain, descriptors, hits_addend: hits_addend.0 }
    }
}

impl From<DescriptorBody> for RlsDescriptor {
    fn from(DescriptorBody { entries, limit, hits_addend, is_negative_hits }: DescriptorBody) -> Self {
        let entry = |Object(EntryBody { key, value })| RlsEntry { key, value };
        RlsDescriptor {
            entries: entries.kept.into_iter().map(entry).collect(),
            limit: limit.map(|Object(OverrideBody { requests_per_unit, unit })| RlsOverride {
                requests_per_unit: requests_per_unit.0,
                unit: unit.0,
            }),
            hits_addend: hits_addend.map(|hits| hits.0),
            is_negative: is_negative_hits,
        }
    }
}

/// Reads a value, or null for what it is if it is left out.
fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(value: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(value).map(Option::unwrap_or_default)
}

/// What is written as an object, and not as a list of its fields, which would do for `serde`.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        object(value).map(Object)
    }
}

/// The first items of a list, so many at most, and how many there are. The others are not kept: two bytes of a body can stand
/// for one, which takes a hundred of memory.
struct Items<T, const MOST: usize> {
    kept: Vec<T>,
    sent: usize,
}

impl<T, const MOST: usize> Default for Items<T, MOST> {
    fn default() -> Self {
        Items { kept: Vec::new(), sent: 0 }
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Items<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct List<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
            type Value = Items<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < MOST {
                    match items.next_element()? {
                        Some(item) => kept.push(item),
                        None => break,
                    }
                }
                let mut sent = kept.len();
                while sent >= MOST && items.next_element::<IgnoredAny>()?.is_some() {
                    sent += 1;
                }
                Ok(Items { kept, sent })
            }
        }

        value.deserialize_seq(List(PhantomData))
    }
}

fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    struct Fields<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(fields))
        }
    }

    value.deserialize_map(Fields(PhantomData))
}

/// A whole number: `5`, `5.0` or `"5"`.
#[derive(Clone, Copy, Default)]
struct Whole<N>(N);

impl<'de, N: TryFrom<i128>> Deserialize<'de> for Whole<N> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = i128;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<i128, E> {
                Ok(number.into())
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<i128, E> {
                Ok(number.into())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<i128, E> {
                if number.fract() != 0.0 {
                    return Err(E::invalid_value(Unexpected::Float(number), &self));
                }
                #[expect(clippy::cast_possible_truncation, reason = "it saturates, and is then out of range")]
                Ok(number as i128)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<i128, E> {
                text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        let number = value.deserialize_any(Number)?;
        let bits = 8 * size_of::<N>();
        let too_large = || D::Error::custom(format_args!("{number} is no whole number of {bits} bits"));
        N::try_from(number).map(Whole).map_err(|_| too_large())
    }
}

/// The number of a unit, which may be none of those that are known.
#[derive(Clone, Copy, Default)]
struct UnitNumber(i32);

impl<'de> Deserialize<'de> for UnitNumber {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct NameOrNumber;

        impl Visitor<'_> for NameOrNumber {
            type Value = i32;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a unit, such as \"MINUTE\" or 2")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
                number.try_into().map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
                number.try_into().map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<i32, E> {
                #[expect(clippy::cast_possible_truncation, reason = "what it cuts off is compared")]
                let whole = number as i32;
                let is_whole = f64::from(whole).to_bits() == number.to_bits();
                if is_whole { Ok(whole) } else { Err(E::invalid_value(Unexpected::Float(number), &self)) }
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
                if name == "UNKNOWN" {
                    return Ok(0);
                }
                let unit = LimitUnit::ALL.into_iter().find(|unit| unit.name() == name);
                unit.map(LimitUnit::number).ok_or_else(|| E::invalid_value(Unexpected::Str(name), &self))
            }
        }

        value.deserialize_any(NameOrNumber).map(UnitNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> RlsEntry {
        RlsEntry { key: key.to_owned(), value: value.to_owned() }
    }

    fn problem(body: &str) -> String {
        read_json(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn too_many_are_counted_and_not_kept() {
        let text = |body: String| read_json(body.as_bytes()).map(|_| ()).map_err(|error| error.to_string());
        let many =
            |number: usize| format!(r#"{{"domain":"d","descriptors":[{}]}}"#, vec!["{}"; number].join(","));
        assert_eq!(text(many(256)), Ok(()));
        let refused = Err("descriptors: 300000; a request has at most 256".to_owned());
        assert_eq!(text(many(300_000)), refused);
        let entries = |number: usize| {
            format!(r#"{{"descriptors":[{{}},{{"entries":[{}]}}]}}"#, vec!["{}"; number].join(","))
        };
        assert_eq!(text(entries(64)), Ok(()));
        let refused = Err("descriptors[1].entries: 65; a descriptor has at most 64".to_owned());
        assert_eq!(text(entries(65)), refused);
        assert!(text(r#"{"descriptors":{}}"#.to_owned()).unwrap_err().contains("expected a list"));
    }

    #[test]
    fn both_spellings_and_every_form_of_a_number_are_read() {
        let expected = RlsRequest {
            domain: "edge".to_owned(),
            descriptors: vec![
                RlsDescriptor {
                    entries: vec![entry("user", "bob"), entry("path", "")],
                    limit: Some(RlsOverride { requests_per_unit: 10, unit: 4 }),
                    hits_addend: Some(u64::MAX),
                    is_negative: true,
                },
                RlsDescriptor::default(),
            ],
            hits_addend: 3,
        };
        for body in [
            r#"{"domain": "edge", "hitsAddend": 3, "descriptors": [{"entries": [{"key": "user", "value": "bob"},
                {"key": "path"}], "limit": {"requestsPerUnit": 10, "unit": "DAY"}, "isNegativeHits": true,
                "hitsAddend": "18446744073709551615"}, {}]}"#,
            r#"{"domain": "edge", "hits_addend": "3", "descriptors": [{"entries": [{"value": "bob", "key": "user"},
                {"key": "path", "value": null}], "limit": {"requests_per_unit": 1e1, "unit": 4},
                "is_negative_hits": true, "hits_addend": 18446744073709551615},
                {"entries": null, "limit": null, "hitsAddend": null, "isNegativeHits": null}]} "#,
        ] {
            assert_eq!(read_json(body.as_bytes()).unwrap(), expected, "{body}");
        }
        assert_eq!(read_json(b"{}").unwrap(), RlsRequest::default());
        let unit = |unit: &str| {
            let body = format!(r#"{{"descriptors": [{{"limit": {{"unit": {unit}}}}}]}}"#);
            read_json(body.as_bytes()).unwrap().descriptors[0].limit.unwrap().unit
        };
        assert_eq!(
            [unit("\"WEEK\""), unit("7"), unit("-3"), unit("99"), unit("\"UNKNOWN\"")],
            [7, 7, -3, 99, 0]
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (body, expected) in [
            ("", "the body is empty"),
            (" \n", "the body is empty"),
            ("}", "expected value"),
            ("{}{}", "trailing characters"),
            ("[]", "expected an object"),
            ("null", "expected an object"),
            (r#"["edge"]"#, "expected an object"),
            (r#"{"domains": "edge"}"#, "unknown field `domains`"),
            (r#"{"domain": "a", "domain": "b"}"#, "duplicate field `domain`"),
            (r#"{"hitsAddend": 1, "hits_addend": 1}"#, "duplicate field"),
            (r#"{"domain": 5}"#, "expected a string"),
            (r#"{"hitsAddend": -1}"#, "-1 is no whole number of 32 bits"),
            (r#"{"hitsAddend": 4294967296}"#, "4294967296 is no whole number of 32 bits"),
            (r#"{"hitsAddend": 1.5}"#, "expected a whole number"),
            (r#"{"hitsAddend": "many"}"#, "expected a whole number"),
            (r#"{"descriptors": [null]}"#, "expected an object"),
            (r#"{"descriptors": [{"entries": [["k", "v"]]}]}"#, "expected an object"),
            (r#"{"descriptors": [{"limit": {"unit": "minute"}}]}"#, "expected a unit"),
            (r#"{"descriptors": [{"hitsAddend": 18446744073709551616}]}"#, "no whole number of 64 bits"),
            (r#"{"descriptors": [{"isNegativeHits": "true"}]}"#, "expected a boolean"),
        ] {
            assert!(problem(body).contains(expected), "{body}: {}", problem(body));
        }
        assert!(read_json(b"{\"domain\": \"\xff\"}").is_err(), "no UTF-8");
    }
}
