//! The keys under which stores outside the process keep states.

use crate::{Key, Name};

/// The key of a state in a store outside the process, written byte by byte as `docs/formats.md` says.
///
/// | key | what is there |
/// |---|---|
/// | `PREFIX:{KEY}:PLAN` | all rules of a plan, as text |
/// | `PREFIX:{KEY}:PLAN:RULE` | one rule, as fields |
/// | `PREFIX:{KEY}`, `PREFIX:{KEY}::` | what quotas without a plan share, as text and as fields |
/// | any of these and `%reset` | when that state was last reset |
///
/// The braces are a hash tag: what is between them decides the slot in a cluster, so that all states of a key lie in one,
/// and a key must not bring braces of its own. `{`, `}` and `%` in it are percent-encoded. So is `:` in the name of a plan,
/// or the text of plan `a:b` would be where the fields of rule `b` of plan `a` are. No name has a `%`, so that nothing
/// else ends with `%reset`.
///
/// Built without an allocation, and written into a buffer of the caller's.
///
/// ```
/// use ratekeeper::Key;
/// use ratekeeper::state::StorageKey;
///
/// let plan = "free:eu".parse()?;
/// let key = StorageKey::new("rate_limiter", Key::new("user:{42}")?).of_plan(&plan);
/// assert_eq!(key.to_bytes(), b"rate_limiter:{user:%7B42%7D}:free%3Aeu");
/// assert_eq!(key.reset().to_bytes(), b"rate_limiter:{user:%7B42%7D}:free%3Aeu%reset");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StorageKey<'a> {
    prefix: &'a str,
    key: Key<'a>,
    owner: StateOwner<'a>,
    is_reset: bool,
}

/// Whose states are kept under a key.
#[derive(Clone, Copy, Debug)]
enum StateOwner<'a> {
    /// Quotas without a plan, as text.
    Requests,
    /// Quotas without a plan, as fields.
    RequestFields,
    Plan(&'a Name),
    Rule(&'a Name, &'a Name),
}

impl<'a> StorageKey<'a> {
    /// What the key of a reset ends with.
    const RESET: &'static [u8] = b"%reset";

    /// Returns the key of what quotas without a plan share, as text: `PREFIX:{KEY}`. The keys of everything about a key
    /// begin with it.
    pub fn new(prefix: &'a str, key: Key<'a>) -> Self {
        StorageKey { prefix, key, owner: StateOwner::Requests, is_reset: false }
    }

    /// Returns the key of what quotas without a plan share, as fields: `PREFIX:{KEY}::`.
    #[must_use]
    pub fn of_fields(self) -> Self {
        StorageKey { owner: StateOwner::RequestFields, ..self }
    }

    /// Returns the key of all rules of a plan, as text: `PREFIX:{KEY}:PLAN`.
    #[must_use]
    pub fn of_plan(self, plan: &'a Name) -> Self {
        StorageKey { owner: StateOwner::Plan(plan), ..self }
    }

    /// Returns the key of one rule, as fields: `PREFIX:{KEY}:PLAN:RULE`.
    #[must_use]
    pub fn of_rule(self, plan: &'a Name, rule: &'a Name) -> Self {
        StorageKey { owner: StateOwner::Rule(plan, rule), ..self }
    }

    /// Returns the key at which the last reset of this one is noted: the same, and `%reset`.
    #[must_use]
    pub fn reset(self) -> Self {
        StorageKey { is_reset: true, ..self }
    }

    /// Appends the key to a buffer.
    pub fn write_to(&self, into: &mut Vec<u8>) {
        Self::write_start(self.prefix, self.key.as_bytes(), into);
        into.push(b'}');
        match self.owner {
            StateOwner::Requests => {}
            StateOwner::RequestFields => into.extend_from_slice(b"::"),
            StateOwner::Plan(plan) | StateOwner::Rule(plan, _) => {
                into.push(b':');
                escape(plan.as_str().as_bytes(), b":", into);
            }
        }
        if let StateOwner::Rule(_, rule) = self.owner {
            into.push(b':');
            into.extend_from_slice(rule.as_str().as_bytes());
        }
        if self.is_reset {
            into.extend_from_slice(Self::RESET);
        }
    }

    /// Appends what the storage keys begin with of all keys that start with these bytes: `PREFIX:{START`.
    pub fn write_start(prefix: &str, start: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(prefix.as_bytes());
        into.extend_from_slice(b":{");
        escape(start, b"{}%", into);
    }

    /// Returns the key, in a buffer of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        bytes
    }

    /// Returns true if these are the bytes of a [reset](StorageKey::reset)'s key.
    pub fn is_reset(bytes: &[u8]) -> bool {
        bytes.ends_with(Self::RESET)
    }
}

/// Percent-encodes some bytes.
fn escape(bytes: &[u8], special: &[u8], into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if special.contains(byte) {
            into.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        } else {
            into.push(*byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_the_formats_say() {
        let (key, plan, rule) =
            (Key::new("a{b}%:c").unwrap(), "x:y".parse().unwrap(), "r:1".parse().unwrap());
        let tagged = StorageKey::new("p", key);
        let text = |key: StorageKey<'_>| String::from_utf8(key.to_bytes()).unwrap();
        assert_eq!(text(tagged), "p:{a%7Bb%7D%25:c}");
        assert_eq!(text(tagged.of_fields()), "p:{a%7Bb%7D%25:c}::");
        assert_eq!(text(tagged.of_plan(&plan)), "p:{a%7Bb%7D%25:c}:x%3Ay");
        assert_eq!(text(tagged.of_rule(&plan, &rule)), "p:{a%7Bb%7D%25:c}:x%3Ay:r:1");
        assert_eq!(text(tagged.of_plan(&plan).reset()), "p:{a%7Bb%7D%25:c}:x%3Ay%reset");
        assert!(
            StorageKey::is_reset(&tagged.reset().to_bytes()) && !StorageKey::is_reset(&tagged.to_bytes())
        );
    }
}
