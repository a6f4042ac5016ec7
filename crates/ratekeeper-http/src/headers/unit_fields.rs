//! The three fields of a unit: `X-RateLimit-Limit-Tokens`, `-Remaining-Tokens`, `-Reset-Tokens`.

use std::time::Duration;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::name::FieldError;
use super::number::{duration_text, number_value};

/// The names of the fields that report one unit, made once.
///
/// ```
/// use ratekeeper_http::headers::UnitFields;
/// use std::time::Duration;
///
/// let tokens = UnitFields::new("tokens")?;
/// let mut response = http::HeaderMap::new();
/// tokens.write(&mut response, 150_000, 149_984, Duration::from_secs(360));
/// assert_eq!(response["x-ratelimit-remaining-tokens"], "149984");
/// assert_eq!(response["x-ratelimit-reset-tokens"], "6m0s");
/// # Ok::<(), ratekeeper_http::headers::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFields {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

impl UnitFields {
    /// Makes the names of a unit's fields.
    ///
    /// # Errors
    ///
    /// If the unit cannot stand in the name of a field.
    pub fn new(unit: &str) -> Result<Self, FieldError> {
        if unit.is_empty() {
            return Err(FieldError::EmptyName);
        }
        let name = |part: &str| {
            HeaderName::try_from(format!("x-ratelimit-{part}-{unit}")).map_err(|_| FieldError::Unprintable)
        };
        Ok(UnitFields { limit: name("limit")?, remaining: name("remaining")?, reset: name("reset")? })
    }

    /// Sets the fields, unless those that are there already report a limit of the same unit that has no more left.
    ///
    /// `reset` is how long until nothing is used any more, rounded up to whole milliseconds.
    pub fn write(&self, headers: &mut HeaderMap, limit: u64, remaining: u64, reset: Duration) {
        // A header map refuses an entry only when it holds tens of thousands: then the response goes without.
        match headers.try_entry(&self.remaining) {
            Err(_) => return,
            Ok(Entry::Vacant(free)) => {
                let _ = free.try_insert(number_value(remaining));
            }
            Ok(Entry::Occupied(mut theirs)) => {
                let left = theirs.get().to_str().ok().and_then(|value| value.parse::<u64>().ok());
                if left.is_some_and(|left| left <= remaining) {
                    return;
                }
                theirs.insert(number_value(remaining));
            }
        }
        let _ = headers.try_insert(&self.limit, number_value(limit));
        if let Ok(reset) = HeaderValue::try_from(duration_text(reset)) {
            let _ = headers.try_insert(&self.reset, reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_less_left_stays() {
        let requests = UnitFields::new("requests").unwrap();
        let mut headers = HeaderMap::new();
        requests.write(&mut headers, 60, 5, Duration::from_secs(1));
        requests.write(&mut headers, 100, 7, Duration::from_secs(2));
        assert_eq!(headers["x-ratelimit-limit-requests"], "60");
        requests.write(&mut headers, 100, 4, Duration::from_millis(120));
        assert_eq!(headers["x-ratelimit-limit-requests"], "100");
        assert_eq!(headers["x-ratelimit-reset-requests"], "120ms");
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn a_unit_is_a_part_of_a_name() {
        assert_eq!(UnitFields::new(""), Err(FieldError::EmptyName));
        assert_eq!(UnitFields::new("a b"), Err(FieldError::Unprintable));
    }
}
