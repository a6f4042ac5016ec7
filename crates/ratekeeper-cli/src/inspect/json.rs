//! A state as an object.

use ratekeeper::state::RecordPart;
use serde_json::{Map, Value, json};

use super::fields::{StateField, Strategy, fields, window_fields};
use super::state::InspectedState;
use crate::when::{Rfc3339, retry_after_ms};

impl InspectedState {
    /// Returns `{"encoding","strategy","version","fields"}`.
    ///
    /// A composite has `"parts"` instead of `"fields"`, and states by name have a `"rule"` in each part. A state of a
    /// server also has `"ttl_ms"`, null if it never expires; one with a quota also has `"next"`,
    /// and `"debts"`: the rules that owe something, how much, and until when.
    pub fn to_json(&self) -> Value {
        let strategy = self.strategy();
        let mut object = Map::new();
        object.insert("encoding".into(), self.encoding_word().into());
        match self.record.parts() {
            [part] if self.record.names().is_empty() => {
                object.extend(part_object(part, self.version(part)));
            }
            parts => {
                object.insert("strategy".into(), strategy.word.into());
                object.insert("version".into(), strategy.version.into());
                let parts = parts.iter().enumerate().map(|(index, part)| {
                    let mut object = part_object(part, self.version(part));
                    if let Some(rule) = self.record.names().get(index) {
                        object.insert("rule".into(), rule.as_str().into());
                    }
                    Value::Object(object)
                });
                object.insert("parts".into(), parts.collect());
            }
        }
        if let Some(left) = self.expires_in {
            let left = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            object.insert("ttl_ms".into(), left.into());
        }
        if let Some(next) = &self.next {
            let decision = &next.decision;
            let debts = next.debts.iter().map(|(rule, debt)| {
                json!({
                    "rule": rule.as_str(),
                    "owed": debt.owed,
                    "until_ns": debt.until.as_nanos(),
                    "until": Rfc3339(debt.until).to_string(),
                })
            });
            let next = json!({
                "allowed": decision.allowed,
                "limit": decision.limit,
                "remaining": decision.remaining,
                "retry_after_ms": retry_after_ms(decision),
                "reset_after_ms": decision.reset_after.ceil_millis(),
                "rule": next.rule.as_str(),
            });
            object.insert("next".into(), next);
            object.insert("debts".into(), debts.collect());
        }
        object.into()
    }
}

fn part_object(part: &RecordPart, version: u8) -> Map<String, Value> {
    let word = Strategy::of(part).word;
    let fields: Value = match part {
        RecordPart::FixedWindows(windows) => {
            let windows = windows.as_slice().iter().map(|window| fields_object(&window_fields(window)));
            json!({ "windows": windows.collect::<Vec<_>>() })
        }
        _ => fields_object(&fields(part)),
    };
    [("strategy", word.into()), ("version", version.into()), ("fields", fields)]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

/// An instant is told twice: `<name>_ns`, as it is stored, and `<name>`, as RFC 3339.
fn fields_object(fields: &[StateField<'_>]) -> Value {
    let mut object = Map::new();
    for field in fields {
        match field {
            StateField::Amount(name, amount) => drop(object.insert((*name).to_owned(), (*amount).into())),
            StateField::Count(name, count) => drop(object.insert((*name).to_owned(), (*count).into())),
            StateField::Name(name) => drop(object.insert("name".to_owned(), (*name).into())),
            StateField::Instant(name, at, _) => {
                object.insert(format!("{name}_ns"), at.as_nanos().into());
                object.insert((*name).to_owned(), Rfc3339(*at).to_string().into());
            }
        }
    }
    object.into()
}
