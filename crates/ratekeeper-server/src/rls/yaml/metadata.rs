//! Whatever stands below `metadata`, as a value of JSON.

use serde_json::{Map, Number, Value};

use super::scalar::{ScalarKind, YamlScalar};
use super::tree::{NodeNumber, YamlPairs, YamlTree, YamlValue};

/// Adds the fields of a map, those that it merges included; a later one replaces an earlier one.
///
/// # Errors
///
/// A key is a list or a map, or what is merged is no map: where, and what is wrong.
pub(super) fn read_metadata(
    tree: &YamlTree<'_>,
    pairs: &YamlPairs,
    out: &mut Map<String, Value>,
) -> Result<(), (NodeNumber, &'static str)> {
    for (key, value) in pairs {
        let Some(scalar) = tree.scalar(*key) else { return Err((*key, "a list or a map cannot be a key")) };
        if is_merge(scalar) {
            for pairs in merged(tree, *value)? {
                read_metadata(tree, pairs, out)?;
            }
        } else {
            out.insert(key_text(scalar), read_value(tree, *value)?);
        }
    }
    Ok(())
}

fn read_value(tree: &YamlTree<'_>, number: NodeNumber) -> Result<Value, (NodeNumber, &'static str)> {
    Ok(match tree.value(number) {
        YamlValue::Scalar(scalar) => scalar_value(scalar),
        YamlValue::List(items) => {
            Value::Array(items.iter().map(|item| read_value(tree, *item)).collect::<Result<_, _>>()?)
        }
        YamlValue::Map(pairs) => {
            let mut fields = Map::new();
            read_metadata(tree, pairs, &mut fields)?;
            Value::Object(fields)
        }
        // An alias stands for something that is none.
        YamlValue::Alias(_) => Value::Null,
    })
}

fn key_text(scalar: &YamlScalar<'_>) -> String {
    match scalar.kind {
        ScalarKind::Bool(value) => value.to_string(),
        ScalarKind::Int(value) => value.to_string(),
        ScalarKind::LargeInt(value) => value.to_string(),
        ScalarKind::Null | ScalarKind::Float(_) | ScalarKind::Text => scalar.text.to_string(),
    }
}

fn scalar_value(scalar: &YamlScalar<'_>) -> Value {
    match scalar.kind {
        ScalarKind::Null => Value::Null,
        ScalarKind::Bool(value) => Value::Bool(value),
        ScalarKind::Int(value) => Value::from(value),
        ScalarKind::LargeInt(value) => Value::from(value),
        // JSON has no number for what is infinite or none: as protojson writes it.
        ScalarKind::Float(value) => Number::from_f64(value).map_or_else(|| not_finite(value), Value::Number),
        ScalarKind::Text => Value::from(&*scalar.text),
    }
}

fn not_finite(value: f64) -> Value {
    Value::from(match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    })
}

/// Returns true of the key under which another map is merged.
pub(super) fn is_merge(key: &YamlScalar<'_>) -> bool {
    key.is_plain && key.text == "<<"
}

/// Returns the maps that stand after `<<`, in the order in which their fields replace each other: of a list, the first counts
/// most and comes last.
///
/// # Errors
///
/// It is neither a map nor a list of maps.
pub(super) fn merged<'a>(
    tree: &'a YamlTree<'_>,
    value: NodeNumber,
) -> Result<Vec<&'a YamlPairs>, (NodeNumber, &'static str)> {
    const WANTED: &str = "what is merged by `<<` must be a map or a list of maps";
    let pairs = |number| match tree.value(number) {
        YamlValue::Map(pairs) => Ok(pairs.as_slice()),
        _ => Err((number, WANTED)),
    };
    match tree.value(value) {
        YamlValue::List(items) => items.iter().rev().map(|item| pairs(*item)).collect(),
        _ => Ok(vec![pairs(value)?]),
    }
}
