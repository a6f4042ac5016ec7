//! What a scalar means: the types of YAML 1.1, as Go's reader knows them.

use std::borrow::Cow;

use saphyr_parser::{ScalarStyle, Tag};

/// A scalar as it was written, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlScalar<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) kind: ScalarKind,
    /// Whether a `<<` means what it says, and is not a text in quotes.
    pub(super) is_plain: bool,
}

/// What a scalar means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarKind {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number that is too large for an `Int`.
    LargeInt(u64),
    Float(f64),
    Text,
}

impl<'t> YamlScalar<'t> {
    /// Returns what was written, under the tag that stands before it.
    ///
    /// # Errors
    ///
    /// The tag says that it is something that it is not.
    pub(super) fn new(text: Cow<'t, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Self, String> {
        let is_plain = style == ScalarStyle::Plain;
        let kind = match tag {
            None if is_plain => resolve(&text),
            None => ScalarKind::Text,
            // A lone `!`: as if it were not quoted.
            Some(tag) if tag.suffix == "!" && tag.handle.is_empty() => resolve(&text),
            Some(tag) if tag.is_yaml_core_schema() => tagged(&text, &tag.suffix)?,
            Some(_) => ScalarKind::Text,
        };
        Ok(YamlScalar { text, kind, is_plain: is_plain && tag.is_none() })
    }
}

fn tagged(text: &str, tag: &str) -> Result<ScalarKind, String> {
    let kind = match (tag, resolve(text)) {
        ("int", kind @ (ScalarKind::Int(_) | ScalarKind::LargeInt(_)))
        | ("bool", kind @ ScalarKind::Bool(_))
        | ("null", kind @ ScalarKind::Null)
        | ("float", kind @ ScalarKind::Float(_)) => kind,
        #[expect(clippy::cast_precision_loss, reason = "that is what the tag asks for")]
        ("float", ScalarKind::Int(whole)) => ScalarKind::Float(whole as f64),
        ("int" | "bool" | "null" | "float", _) => return Err(format!("cannot read `{text}` as !!{tag}")),
        ("binary", _) => return Err("!!binary is not supported: write the text".to_owned()),
        _ => ScalarKind::Text,
    };
    Ok(kind)
}

/// Returns what a text without quotes means.
pub(super) fn resolve(text: &str) -> ScalarKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ScalarKind::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return ScalarKind::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return ScalarKind::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return ScalarKind::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return ScalarKind::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return ScalarKind::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes()[0] {
        b'.' => float(text).map_or(ScalarKind::Text, ScalarKind::Float),
        b'0'..=b'9' | b'+' | b'-' => number(text),
        _ => ScalarKind::Text,
    }
}

fn number(text: &str) -> ScalarKind {
    let plain = match text.contains('_') {
        true => Cow::Owned(text.replace('_', "")),
        false => Cow::Borrowed(text),
    };
    if let Some(kind) = whole(&plain) {
        return kind;
    }
    // Also what begins with 0 and is no octal number, and what no 64 bits hold.
    float(&plain).map_or(ScalarKind::Text, ScalarKind::Float)
}

/// Reads a whole number: decimal, or after `0x`, `0o` or a plain `0`, and `0b`.
fn whole(plain: &str) -> Option<ScalarKind> {
    let (is_negative, is_signed, digits) = match plain.as_bytes().first()? {
        b'-' => (true, true, &plain[1..]),
        b'+' => (false, true, &plain[1..]),
        _ => (false, false, plain),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        return None;
    }
    let size = i128::from_str_radix(digits, radix).ok()?;
    let value = if is_negative { -size } else { size };
    match i64::try_from(value) {
        Ok(value) => Some(ScalarKind::Int(value)),
        Err(_) if is_signed => None,
        Err(_) => u64::try_from(value).ok().map(ScalarKind::LargeInt),
    }
}

/// Reads a number with a fraction or an exponent: `[-+]? ( .digits | digits [ . digits? ] ) [ [eE] [-+]? digits ]`.
fn float(plain: &str) -> Option<f64> {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digits = |text: &str| !text.is_empty() && are_digits(text);
    let is_mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => has_digits(fraction),
        Some((integer, fraction)) => has_digits(integer) && are_digits(fraction),
        None => has_digits(mantissa),
    };
    let is_exponent = |exponent: &str| has_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
    if !is_mantissa || !exponent.is_none_or(is_exponent) {
        return None;
    }
    plain.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as Go's reader of YAML (v2.4) takes it.
    #[test]
    fn plain_texts_mean_what_they_mean_to_go() {
        use ScalarKind::{Bool, Float, Int, LargeInt, Null, Text};
        for (text, expected) in [
            ("", Null),
            ("~", Null),
            ("null", Null),
            ("nULL", Text),
            ("y", Bool(true)),
            ("Yes", Bool(true)),
            ("ON", Bool(true)),
            ("true", Bool(true)),
            ("tRUE", Text),
            ("n", Bool(false)),
            ("no", Bool(false)),
            ("Off", Bool(false)),
            ("False", Bool(false)),
            ("0", Int(0)),
            ("-0", Int(0)),
            ("42", Int(42)),
            ("+7", Int(7)),
            ("-5", Int(-5)),
            ("1_000", Int(1_000)),
            ("0x1F", Int(31)),
            ("010", Int(8)),
            ("0o17", Int(15)),
            ("0b101", Int(5)),
            ("-0b101", Int(-5)),
            ("-0x10", Int(-16)),
            ("9223372036854775807", Int(i64::MAX)),
            ("9223372036854775808", LargeInt(1 << 63)),
            ("18446744073709551615", LargeInt(u64::MAX)),
            ("18446744073709551616", Float(18_446_744_073_709_551_616.0)),
            ("-9223372036854775809", Float(-9_223_372_036_854_775_809.0)),
            ("+9223372036854775808", Float(9_223_372_036_854_775_808.0)),
            ("08", Float(8.0)),
            ("0.25", Float(0.25)),
            ("1.", Float(1.0)),
            (".5", Float(0.5)),
            ("+.5", Float(0.5)),
            ("-1e3", Float(-1_000.0)),
            ("1E+2", Float(100.0)),
            ("1e999", Text),
            (".5_0", Text),
            ("1_0.5", Float(10.5)),
            (".inf", Float(f64::INFINITY)),
            ("-.Inf", Float(f64::NEG_INFINITY)),
            ("2026-01-02", Text),
            ("2026-01-02 03:04:05", Text),
            ("10.0.0.1", Text),
            ("1.2.3", Text),
            ("1:30", Text),
            ("-", Text),
            ("+", Text),
            (".", Text),
            ("..", Text),
            ("0x", Text),
            ("0xg", Text),
            ("1e", Text),
            ("e5", Text),
            ("<<", Text),
            ("12a", Text),
            ("½", Text),
            ("inf", Text),
            ("nan", Text),
            ("_1", Text),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
        assert!(matches!(resolve(".nan"), Float(value) if value.is_nan()));
    }
}
