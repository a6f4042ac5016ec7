//! `RateLimit-Policy`, which does not change from one response to the next.

use http::HeaderValue;

use super::emit::{push_number, seconds_up};
use super::name::{FieldError, LimitName, quote};
use super::{MAX_ENTRIES, Policy, Unit, base64};

/// A `RateLimit-Policy` field, rendered once. Cloning it shares the bytes.
///
/// ```
/// use ratekeeper_http::headers::{Policy, PolicyField};
/// use std::time::Duration;
///
/// let field = PolicyField::new(&[
///     Policy::new("burst", 100).window(Duration::from_secs(60)),
///     Policy::new("daily", 1000).window(Duration::from_secs(86_400)),
/// ])?;
/// assert_eq!(field.value(), r#""burst";q=100;w=60, "daily";q=1000;w=86400"#);
/// # Ok::<(), ratekeeper_http::headers::FieldError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyField {
    value: HeaderValue,
    names: Vec<LimitName>,
}

impl PolicyField {
    /// Renders the policies, in order. Windows are rounded up to whole seconds, so that nobody is promised more
    /// than there is; numbers above 999,999,999,999,999 are sent as that, the largest the format has.
    pub fn new(policies: &[Policy]) -> Result<Self, FieldError> {
        if policies.is_empty() {
            return Err(FieldError::NoPolicies);
        }
        if policies.len() > MAX_ENTRIES {
            return Err(FieldError::TooManyPolicies);
        }
        let mut names = Vec::with_capacity(policies.len());
        let mut field = Vec::new();
        for policy in policies {
            let name = LimitName::new(policy.name.as_deref().ok_or(FieldError::Unnamed)?)?;
            if policy.window.is_some_and(|window| window.is_zero()) {
                return Err(FieldError::EmptyWindow);
            }
            if !field.is_empty() {
                field.extend_from_slice(b", ");
            }
            field.extend_from_slice(name.as_field().as_bytes());
            push_parameters(policy, &mut field)?;
            names.push(name);
        }
        let value = HeaderValue::try_from(field).map_err(|_| FieldError::Unprintable)?;
        Ok(PolicyField { value, names })
    }

    /// What to send.
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// The names of the policies, in order, ready to be sent in `RateLimit` too.
    pub fn names(&self) -> &[LimitName] {
        &self.names
    }
}

fn push_parameters(policy: &Policy, field: &mut Vec<u8>) -> Result<(), FieldError> {
    field.extend_from_slice(b";q=");
    push_number(policy.quota, field);
    if let Some(window) = policy.window {
        field.extend_from_slice(b";w=");
        push_number(seconds_up(window), field);
    }
    if policy.unit != Unit::Requests {
        field.extend_from_slice(b";qu=");
        field.extend_from_slice(quote(policy.unit.as_str())?.as_bytes());
    }
    if let Some(key) = &policy.partition_key {
        field.extend_from_slice(b";pk=:");
        base64::encode(key, field);
        field.push(b':');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_parameter() {
        let policy = Policy::new("a\"b", u64::MAX)
            .window(Duration::from_millis(1500))
            .unit(Unit::ContentBytes)
            .partition_key(*b"secret");
        let field = PolicyField::new(&[policy]).unwrap();
        let expected = r#""a\"b";q=999999999999999;w=2;qu="content-bytes";pk=:c2VjcmV0:"#;
        assert_eq!(field.value(), expected);
        assert_eq!(field.names(), [LimitName::new("a\"b").unwrap()]);
    }

    #[test]
    fn refused() {
        let refused = |policies: &[Policy]| PolicyField::new(policies).unwrap_err();
        let fine = Policy::new("a", 1);
        assert_eq!(refused(&[]), FieldError::NoPolicies);
        assert_eq!(refused(&vec![fine.clone(); MAX_ENTRIES + 1]), FieldError::TooManyPolicies);
        assert_eq!(refused(&[Policy { name: None, ..fine.clone() }]), FieldError::Unnamed);
        assert_eq!(refused(&[fine.clone(), Policy::new("é", 1)]), FieldError::Unprintable);
        assert_eq!(refused(&[fine.clone().window(Duration::ZERO)]), FieldError::EmptyWindow);
        assert_eq!(refused(&[fine.unit(Unit::Other("\t".to_owned()))]), FieldError::Unprintable);
    }
}
