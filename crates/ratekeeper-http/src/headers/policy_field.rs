//! `RateLimit-Policy`, which does not change from one response to the next.

use http::HeaderValue;

use sfv::{Integer, ListSerializer, key_ref};

use super::fields::MAX_ENTRIES;
use super::name::{FieldError, LimitName, string};
use super::number::{number_value, seconds_up};
use super::quota_policy::{QuotaPolicy, QuotaUnit};

/// A `RateLimit-Policy` field, rendered once. Cloning it shares the bytes.
///
/// ```
/// use ratekeeper_http::headers::{QuotaPolicy, PolicyField};
/// use std::time::Duration;
///
/// let field = PolicyField::new(&[
///     QuotaPolicy::new("burst", 100).window(Duration::from_secs(60)),
///     QuotaPolicy::new("daily", 1000).window(Duration::from_secs(86_400)),
/// ])?;
/// assert_eq!(field.value(), r#""burst";q=100;w=60, "daily";q=1000;w=86400"#);
/// # Ok::<(), ratekeeper_http::headers::FieldError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyField {
    value: HeaderValue,
    names: Vec<LimitName>,
    /// Every quota as a number alone, which is what the legacy fields hold.
    quotas: Vec<(u64, HeaderValue)>,
}

impl PolicyField {
    /// Renders the policies, in order. Windows are rounded up to whole seconds, so that nobody is promised more
    /// than there is; numbers above 999,999,999,999,999 are sent as that, the largest the format has.
    ///
    /// # Errors
    ///
    /// If there is no policy or more than [`MAX_ENTRIES`], a policy has no name or a window of no time, or a name or
    /// unit is not printable ASCII.
    pub fn new(policies: &[QuotaPolicy]) -> Result<Self, FieldError> {
        if policies.len() > MAX_ENTRIES {
            return Err(FieldError::TooManyPolicies);
        }
        let mut names = Vec::with_capacity(policies.len());
        let mut list = ListSerializer::new();
        for policy in policies {
            let name = policy.name.as_deref().ok_or(FieldError::Unnamed)?;
            names.push(LimitName::new(name)?);
            if policy.window.is_some_and(|window| window.is_zero()) {
                return Err(FieldError::EmptyWindow);
            }
            let mut field = list.bare_item(string(name)?).parameter(key_ref("q"), integer(policy.quota));
            if let Some(window) = policy.window {
                field = field.parameter(key_ref("w"), integer(seconds_up(window)));
            }
            if policy.unit != QuotaUnit::Requests {
                field = field.parameter(key_ref("qu"), string(policy.unit.as_str())?);
            }
            if let Some(key) = &policy.partition_key {
                field = field.parameter(key_ref("pk"), key.as_slice());
            }
            // All of it is in the list already.
            let _ = field.finish();
        }
        let field = list.finish().ok_or(FieldError::NoPolicies)?;
        let value = HeaderValue::try_from(field).map_err(|_| FieldError::Unprintable)?;
        let quotas = policies.iter().map(|policy| (policy.quota, number_value(policy.quota))).collect();
        Ok(PolicyField { value, names, quotas })
    }

    /// Returns the value to send.
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Returns a quota as a value. That of a policy is rendered already.
    pub(super) fn quota(&self, quota: u64) -> HeaderValue {
        let rendered = self.quotas.iter().find(|(number, _)| *number == quota);
        rendered.map_or_else(|| number_value(quota), |(_, value)| value.clone())
    }

    /// Returns the names of the policies, in order, ready to be sent in `RateLimit` too.
    pub fn names(&self) -> &[LimitName] {
        &self.names
    }
}

/// Larger numbers are sent as the largest one.
fn integer(number: u64) -> Integer {
    Integer::try_from(number).unwrap_or(Integer::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_parameter() {
        let policy = QuotaPolicy::new("a\"b", u64::MAX)
            .window(Duration::from_millis(1500))
            .unit(QuotaUnit::ContentBytes)
            .partition_key(*b"secret");
        let field = PolicyField::new(&[policy]).unwrap();
        let expected = r#""a\"b";q=999999999999999;w=2;qu="content-bytes";pk=:c2VjcmV0:"#;
        assert_eq!(field.value(), expected);
        assert_eq!(field.names(), [LimitName::new("a\"b").unwrap()]);
    }

    #[test]
    fn refused() {
        let refused = |policies: &[QuotaPolicy]| PolicyField::new(policies).unwrap_err();
        let fine = QuotaPolicy::new("a", 1);
        assert_eq!(refused(&[]), FieldError::NoPolicies);
        assert_eq!(refused(&vec![fine.clone(); MAX_ENTRIES + 1]), FieldError::TooManyPolicies);
        assert_eq!(refused(&[QuotaPolicy { name: None, ..fine.clone() }]), FieldError::Unnamed);
        assert_eq!(refused(&[fine.clone(), QuotaPolicy::new("é", 1)]), FieldError::Unprintable);
        assert_eq!(refused(&[fine.clone().window(Duration::ZERO)]), FieldError::EmptyWindow);
        assert_eq!(refused(&[fine.unit(QuotaUnit::Other("\t".to_owned()))]), FieldError::Unprintable);
    }
}
