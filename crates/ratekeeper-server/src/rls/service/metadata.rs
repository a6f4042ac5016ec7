//! What filters after this one are told: the request, and what the rules say that it passed.

use serde_json::{Map, Value, json};

use super::cases::Cases;
use crate::rls::answer::{DescriptorStatus, RlsCode};
use crate::rls::asked::{RlsDescriptor, RlsOverride, RlsRequest};
use crate::rls::unit::LimitUnit;

/// Returns the dynamic metadata of an answer.
pub(super) fn dynamic_metadata(
    request: &RlsRequest,
    cases: &Cases<'_>,
    statuses: &[DescriptorStatus],
) -> Map<String, Value> {
    let mut told = Map::new();
    told.insert("domain".to_owned(), request.domain.clone().into());
    told.insert("descriptors".to_owned(), request.descriptors.iter().map(descriptor).collect());
    if request.hits_addend != 0 {
        told.insert("hitsAddend".to_owned(), request.hits_addend.into());
    }
    let mut merged = Map::new();
    let passed = cases.each.iter().zip(statuses).filter(|(_, status)| status.code == RlsCode::Ok);
    for metadata in passed.filter_map(|(case, _)| case.metadata) {
        merge(&mut merged, metadata);
    }
    if !merged.is_empty() {
        told.insert("metadata".to_owned(), merged.into());
    }
    told
}

fn descriptor(descriptor: &RlsDescriptor) -> Value {
    let entries: Vec<_> =
        descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
    let mut told = json!({ "entries": entries });
    if let Some(limit) = descriptor.limit {
        told["limit"] = limit_text(limit).into();
    }
    if let Some(hits) = descriptor.hits_addend {
        told["hitsAddend"] = hits.into();
    }
    told
}

/// Returns a limit in the text form of protocol buffers, as the Go service has it here.
fn limit_text(RlsOverride { requests_per_unit, unit }: RlsOverride) -> String {
    let count = (requests_per_unit != 0).then(|| format!("requests_per_unit:{requests_per_unit}"));
    let unit = (unit != 0).then(|| match LimitUnit::of_number(unit) {
        // The unit of a request has no name for a week.
        Some(known) if known != LimitUnit::Week => format!("unit:{}", known.name()),
        _ => format!("unit:{unit}"),
    });
    count.into_iter().chain(unit).collect::<Vec<_>>().join(" ")
}

/// Adds what is not there yet. Of two maps under one key the second is merged into the first.
fn merge(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match into.get_mut(key) {
            None => {
                into.insert(key.clone(), value.clone());
            }
            Some(Value::Object(known)) => {
                if let Value::Object(value) = value {
                    merge(known, value);
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wins_and_maps_are_merged_inwards() {
        let mut merged = Map::new();
        for more in [
            json!({"a": {"x": 1, "y": {"z": 1}}, "b": [1]}),
            json!({"a": {"x": 2, "w": 2, "y": {"v": 2}}, "b": [2], "c": 3}),
            json!({"a": 4, "b": {"x": 4}, "c": {"x": 4}}),
        ] {
            merge(&mut merged, more.as_object().unwrap());
        }
        assert_eq!(
            Value::from(merged),
            json!({"a": {"x": 1, "y": {"z": 1, "v": 2}, "w": 2}, "b": [1], "c": 3})
        );
    }

    #[test]
    fn limits_are_told_as_text() {
        let text = |requests_per_unit, unit| limit_text(RlsOverride { requests_per_unit, unit });
        assert_eq!(text(10, 4), "requests_per_unit:10 unit:DAY");
        assert_eq!([text(0, 2), text(5, 0), text(0, 0)], ["unit:MINUTE", "requests_per_unit:5", ""]);
        assert_eq!([text(0, 7), text(0, 99)], ["unit:7", "unit:99"]);
    }
}
