//! What stands behind the `?` of a path.

use super::problem::Problem;
use crate::request::{RequestError, RequestField};

/// The query of a request about a hold: `key=…&each=true`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HoldQuery {
    /// Whose hold it is: bytes, as keys are.
    pub(super) key: Vec<u8>,
    /// Whether the answer tells of every rule.
    pub(super) each: bool,
}

impl HoldQuery {
    /// Reads a query, percent-encoded as forms are: a `+` is a space.
    pub(super) fn read(query: Option<&str>) -> Result<Self, Problem> {
        let mut key = None;
        let mut each = None;
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_new = match name {
                "key" => key.replace(decoded("key", value)?).is_none(),
                "each" => each.replace(flag(value)?).is_none(),
                _ => return Err(wrong("query", "has `key` and `each`")),
            };
            if !is_new {
                return Err(wrong(name, "named twice; say it once"));
            }
        }
        let missing = || RequestError::Missing(RequestField::Key);
        Ok(HoldQuery { key: key.ok_or_else(missing)?, each: each.unwrap_or(false) })
    }
}

fn wrong(name: &str, problem: &str) -> Problem {
    Problem::field(name.to_owned(), format!("{name}: {problem}"))
}

fn flag(value: &str) -> Result<bool, Problem> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong("each", "must be true or false")),
    }
}

/// Returns the bytes that a value stands for.
fn decoded(name: &str, value: &str) -> Result<Vec<u8>, Problem> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        out.push(match (byte, after) {
            (b'%', [high, low, after @ ..]) if digit(high).is_some() && digit(low).is_some() => {
                rest = after;
                digit(high).unwrap_or(0) << 4 | digit(low).unwrap_or(0)
            }
            (b'%', _) => return Err(wrong(name, "a `%` without two hexadecimal digits; send it as `%25`")),
            (b'+', _) => b' ',
            (byte, _) => *byte,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_however_they_are_written() {
        let key = |query| HoldQuery::read(Some(query)).map(|query| query.key).ok();
        assert_eq!(key("key=user%3A42").unwrap(), b"user:42");
        assert_eq!(key("key=user:42/%C3%A9+%2B%ff%00").unwrap(), b"user:42/\xc3\xa9 +\xff\0");
        assert_eq!(key("key=a=b&each=true").unwrap(), b"a=b");
        assert!(HoldQuery::read(Some("each=true&key=k")).unwrap().each);
        for wrong in
            ["", "key=%", "key=%2", "key=%zz", "key=a&key=a", "each=yes&key=a", "id=1&key=a", "each=true"]
        {
            assert_eq!(key(wrong), None, "{wrong}");
        }
        assert!(HoldQuery::read(None).is_err());
    }
}
