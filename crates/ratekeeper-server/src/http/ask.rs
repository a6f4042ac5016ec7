//! Bodies: JSON to requests.

use ratekeeper::Key;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;

/// `POST /throttle`. What is not known is skipped, as others do.
#[derive(Debug, Deserialize)]
pub(super) struct Throttle {
    pub(super) key: String,
    pub(super) max_burst: Option<i64>,
    pub(super) count_per_period: Option<i64>,
    pub(super) period: Option<i64>,
    pub(super) quantity: Option<i64>,
}

/// `POST /v1/…`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) key: String,
    pub(super) plan: Option<String>,
    pub(super) plans: Option<Vec<String>>,
    pub(super) quota: Option<String>,
    pub(super) cost: Option<u64>,
}

/// A body that names its fields and says of what kind each is.
pub(super) trait Body: DeserializeOwned {
    const FIELDS: &'static [(&'static str, Kind)];
}

/// What a field must be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Texts,
    Integer,
    Whole,
}

impl Body for Throttle {
    const FIELDS: &'static [(&'static str, Kind)] = &[
        ("key", Kind::Text),
        ("max_burst", Kind::Integer),
        ("count_per_period", Kind::Integer),
        ("period", Kind::Integer),
        ("quantity", Kind::Integer),
    ];
}

impl Body for Ask {
    const FIELDS: &'static [(&'static str, Kind)] = &[
        ("key", Kind::Text),
        ("plan", Kind::Text),
        ("plans", Kind::Texts),
        ("quota", Kind::Text),
        ("cost", Kind::Whole),
    ];
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Kind::Text => value.is_string(),
            Kind::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Kind::Integer => value.is_i64(),
            Kind::Whole => value.is_u64(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Text => "a string",
            Kind::Texts => "a list of strings",
            Kind::Integer => "an integer of 64 bits",
            Kind::Whole => "a whole number, at least 0",
        }
    }
}

/// Reads a body.
pub(super) fn read<B: Body>(bytes: &[u8]) -> Result<B, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() { blame::<B>(bytes, &error) } else { Problem::malformed(error.to_string()) }
    })
}

/// Finds out which field is wrong: only now, because a body that is right need not pay for it.
#[cold]
fn blame<B: Body>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    let object = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Problem::field("body", "must be an object"),
        Err(error) => return Problem::malformed(error.to_string()),
    };
    for (name, kind) in B::FIELDS {
        match object.get(*name) {
            // The one field that every body must have.
            None | Some(Value::Null) if *name == "key" => {
                return Problem::field("key", "key: missing; say who asks");
            }
            None | Some(Value::Null) => {}
            Some(value) if kind.fits(value) => {}
            Some(_) => return Problem::field(*name, format!("{name}: must be {}", kind.words())),
        }
    }
    let unknown = object.keys().find(|name| B::FIELDS.iter().all(|(known, _)| known != name));
    let name = unknown.map_or("body", String::as_str);
    Problem::field(name.to_owned(), error.to_string())
}

/// A key, or the problem with it.
pub(super) fn key(text: &str) -> Result<Key<'_>, Problem> {
    Key::new(text).map_err(|error| Problem::field("key", error.to_string()))
}
