//! Bodies: JSON to requests.

use std::fmt;

use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::problem::Problem;
use crate::request::{ForgetFields, RequestError, RequestField, ThrottleFields};

/// The most bytes of a body.
pub(super) const MAX_BODY: usize = 64 * 1024;

/// `POST /throttle`. Unknown fields are ignored, as other servers of this route do.
#[derive(Debug, Deserialize)]
pub(super) struct ThrottleBody {
    pub(super) key: String,
    #[serde(default, deserialize_with = "integer")]
    max_burst: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    count_per_period: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    period: Option<i64>,
    #[serde(default, deserialize_with = "integer")]
    quantity: Option<i64>,
}

impl ThrottleBody {
    /// Returns the numbers of the throttle.
    pub(super) fn fields(&self) -> ThrottleFields {
        let ThrottleBody { max_burst, count_per_period, period, quantity, .. } = *self;
        ThrottleFields { max_burst, count_per_period, period, quantity }
    }
}

/// `POST /v1/forget`: a prefix, or everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetBody {
    prefix: Option<String>,
    all: Option<bool>,
}

impl ForgetBody {
    /// Returns the fields of the request.
    pub(super) fn fields(&self) -> ForgetFields<'_> {
        ForgetFields { prefix: self.prefix.as_deref().map(str::as_bytes), all: self.all.unwrap_or(false) }
    }
}

/// A body, with the names and the kinds of its fields.
pub(super) trait JsonBody: DeserializeOwned {
    const FIELDS: &'static [(&'static str, FieldKind)];
}

/// What the value of a field must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldKind {
    Text,
    Texts,
    Integer,
    Whole,
    Amounts,
    Flag,
}

impl JsonBody for ThrottleBody {
    const FIELDS: &'static [(&'static str, FieldKind)] = &[
        ("key", FieldKind::Text),
        ("max_burst", FieldKind::Integer),
        ("count_per_period", FieldKind::Integer),
        ("period", FieldKind::Integer),
        ("quantity", FieldKind::Integer),
    ];
}

impl JsonBody for ForgetBody {
    const FIELDS: &'static [(&'static str, FieldKind)] =
        &[("prefix", FieldKind::Text), ("all", FieldKind::Flag)];
}

impl FieldKind {
    fn fits(self, value: &Value) -> bool {
        match self {
            FieldKind::Text => value.is_string(),
            FieldKind::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            FieldKind::Integer => integer::<_, i64>(value).is_ok(),
            FieldKind::Whole => integer::<_, u64>(value).is_ok(),
            FieldKind::Amounts => value.as_object().is_some_and(|amounts| {
                amounts.values().all(|amount| matches!(integer::<_, u64>(amount), Ok(Some(_))))
            }),
            FieldKind::Flag => value.is_boolean(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            FieldKind::Text => "a string",
            FieldKind::Texts => "a list of strings",
            FieldKind::Integer => "an integer of 64 bits",
            FieldKind::Whole => "a whole number from 0 to 18446744073709551615",
            FieldKind::Amounts => {
                "an object of units, each with a whole number from 0 to 9223372036854775807"
            }
            FieldKind::Flag => "true or false",
        }
    }
}

/// Reads an integer, or null. JSON does not tell `10` from `10.0` or `1e1`, and some languages write those.
pub(super) fn integer<'de, D, N>(value: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<i128>,
{
    struct Integer;

    impl Visitor<'_> for Integer {
        type Value = Option<i128>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an integer")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok(Some(value.into()))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            Ok(Some(value.into()))
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            if value.fract() != 0.0 || !value.is_finite() {
                return Err(E::invalid_type(Unexpected::Float(value), &self));
            }
            #[expect(clippy::cast_possible_truncation, reason = "saturates, and is then out of range")]
            Ok(Some(value as i128))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    match value.deserialize_any(Integer)? {
        None => Ok(None),
        Some(value) => N::try_from(value).map(Some).map_err(|_| Error::custom("an integer out of range")),
    }
}

/// Reads a body.
pub(super) fn read<B: JsonBody>(bytes: &[u8]) -> Result<B, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| if error.is_data() { blame(B::FIELDS, bytes, &error) } else { malformed(&error) })
}

/// Returns the problem of a body that is not JSON.
#[cold]
pub(super) fn malformed(error: &serde_json::Error) -> Problem {
    Problem::malformed(error.to_string())
}

/// Returns which field is wrong. Parses again, so that a body that is right need not pay for it.
#[cold]
pub(super) fn blame(
    fields: &[(&'static str, FieldKind)],
    bytes: &[u8],
    error: &serde_json::Error,
) -> Problem {
    let object = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Problem::field("body", "must be an object"),
        Err(error) => return malformed(&error),
    };
    for (name, kind) in fields {
        match object.get(*name) {
            // The fields that a body must have, if it has them at all.
            None | Some(Value::Null) if *name == "key" => {
                return RequestError::Missing(RequestField::Key).into();
            }
            None | Some(Value::Null) if *name == "limit" => {
                return Problem::field("limit", "limit: missing; write one, such as 10/s burst 20");
            }
            None | Some(Value::Null) => {}
            Some(value) if kind.fits(value) => {}
            Some(_) => return Problem::field(*name, format!("{name}: must be {}", kind.words())),
        }
    }
    // There may be several: the one that the text is about.
    let detail = error.to_string();
    let unknown = object.keys().find(|name| detail.starts_with(&format!("unknown field `{name}`")));
    let name = unknown.map_or("body", String::as_str);
    Problem::field(name.to_owned(), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_one_however_it_is_written() {
        for (text, expected) in [
            ("10", Ok(Some(10))),
            ("1e1", Ok(Some(10))),
            ("10.0", Ok(Some(10))),
            ("-9223372036854775808", Ok(Some(i64::MIN))),
            ("null", Ok(None)),
            ("9223372036854775808", Err(())),
            ("1e300", Err(())),
            ("1.5", Err(())),
            ("\"1\"", Err(())),
            ("true", Err(())),
        ] {
            let body = format!("{{\"key\":\"k\",\"period\":{text}}}");
            let read = read::<ThrottleBody>(body.as_bytes());
            assert_eq!(read.map(|body| body.period).map_err(|_| ()), expected, "{text}");
        }
    }
}
