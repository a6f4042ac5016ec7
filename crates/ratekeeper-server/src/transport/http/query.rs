//! What stands behind the `?` of a path.

use super::problem::Problem;
use crate::request::{RequestError, RequestField};

/// The most fields of a query.
const MOST_FIELDS: usize = 100;

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
        let mut asked = QueryFields::read(query, &["key", "each"], &[])?;
        let missing = || RequestError::Missing(RequestField::Key);
        let each = asked.flag("each")?;
        Ok(HoldQuery { key: asked.take("key").ok_or_else(missing)?, each })
    }
}

/// The fields behind the `?` of a path, decoded.
#[derive(Debug)]
pub(super) struct QueryFields<'a>(Vec<(&'a str, Vec<u8>)>);

impl<'a> QueryFields<'a> {
    /// Reads a query that may have these fields, each once, and these more often.
    ///
    /// # Errors
    ///
    /// It has another field, or one twice that comes once, or too many, or cannot be decoded.
    pub(super) fn read(query: Option<&'a str>, once: &[&str], often: &[&str]) -> Result<Self, Problem> {
        let mut fields: Vec<(&str, Vec<u8>)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !once.contains(&name) && !often.contains(&name) {
                let known: Vec<String> = once.iter().chain(often).map(|name| format!("`{name}`")).collect();
                let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
                return Err(wrong("query", &format!("has {known}")));
            }
            if fields.len() == MOST_FIELDS {
                return Err(wrong("query", &format!("more than {MOST_FIELDS} fields; send at most so many")));
            }
            if once.contains(&name) && fields.iter().any(|(other, _)| *other == name) {
                return Err(wrong(name, "named twice; say it once"));
            }
            fields.push((name, decoded(name, value, PlusMeaning::Space)?));
        }
        Ok(QueryFields(fields))
    }

    /// Takes the bytes of a field, if it is there.
    pub(super) fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|(other, _)| *other == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes the text of a field, if it is there.
    ///
    /// # Errors
    ///
    /// It is no text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| wrong(name, "must be text in UTF-8"));
        self.take(name).map(text).transpose()
    }

    /// Takes all texts of a field.
    ///
    /// # Errors
    ///
    /// One is no text.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, Problem> {
        let mut all = Vec::new();
        while let Some(text) = self.text(name)? {
            all.push(text);
        }
        Ok(all)
    }

    /// Takes a field that is true or false; false if it is not there.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some(b"false") => Ok(false),
            Some(b"true") => Ok(true),
            Some(_) => Err(wrong(name, "must be true or false")),
        }
    }

    /// Takes a field that is a whole number, if it is there.
    ///
    /// # Errors
    ///
    /// It is none, or larger than `most`.
    pub(super) fn number(&mut self, name: &str, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        // Digits only: a sign is none, though it would be understood.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number <= most);
        let problem = || wrong(name, &format!("must be a whole number from 0 to {most}"));
        number.map(Some).ok_or_else(problem)
    }
}

/// Returns the problem of a field of a query.
pub(super) fn wrong(name: &str, problem: &str) -> Problem {
    Problem::field(name.to_owned(), format!("{name}: {problem}"))
}

/// What a `+` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlusMeaning {
    /// A space, as in forms.
    Space,
    /// Itself, as in paths.
    Plus,
}

/// Returns the bytes that a percent-encoded value stands for.
pub(super) fn decoded(name: &str, value: &str, plus: PlusMeaning) -> Result<Vec<u8>, Problem> {
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
            (b'+', _) if plus == PlusMeaning::Space => b' ',
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

    #[test]
    fn fields_are_told_apart() {
        let query = Some("last=7&plan=a&plan=b%20c&all=true");
        let mut fields = QueryFields::read(query, &["last", "all"], &["plan"]).unwrap();
        assert_eq!(fields.number("last", 9).unwrap(), Some(7));
        assert_eq!(fields.texts("plan").unwrap(), ["a", "b c"]);
        assert!(fields.flag("all").unwrap() && !fields.flag("all").unwrap());
        for wrong in ["last=10", "last=-1", "last=+1", "last=", "last=1.5", "last=%ff"] {
            let mut fields = QueryFields::read(Some(wrong), &["last"], &[]).unwrap();
            assert!(fields.number("last", 9).is_err(), "{wrong}");
        }
        let most = "plan=a&".repeat(MOST_FIELDS);
        assert_eq!(QueryFields::read(Some(&most), &[], &["plan"]).unwrap().texts("plan").unwrap().len(), 100);
        assert!(QueryFields::read(Some(&format!("{most}plan")), &[], &["plan"]).is_err());
        assert_eq!(decoded("key", "a+b%2f", PlusMeaning::Plus).unwrap(), b"a+b/");
    }
}
