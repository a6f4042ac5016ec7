//! The fields of a hash, as replies carry them; also of the hash that the quotas of requests share.

use std::collections::BTreeMap;

use ratekeeper::Name;
use redis::Value;

use crate::error::RedisError;

/// The name and the content of a field.
pub(crate) type HashField<'v> = (&'v [u8], &'v [u8]);

/// Fields by the name of the state that they belong to.
pub(crate) type SharedFields<'v> = BTreeMap<&'v [u8], Vec<HashField<'v>>>;

/// Returns the fields of a hash.
pub(crate) fn hash_fields(values: &[Value]) -> Result<Vec<HashField<'_>>, RedisError> {
    let bytes = values.iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes.as_slice()),
        _ => Err(RedisError::unparsed("the script", "the fields of a hash as strings")),
    });
    let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
    Ok(bytes.as_chunks::<2>().0.iter().map(|[name, content]| (*name, *content)).collect())
}

/// Returns the fields of a hash that several quotas share, `NAME/FIELD`, by the name of the state. Each state has the
/// hash's version. Empty if no field has a `/`: then it is the hash of one rule.
pub(crate) fn fields_by_state(values: &[Value]) -> Result<SharedFields<'_>, RedisError> {
    let fields = hash_fields(values)?;
    let version = fields.iter().find(|(name, _)| *name == b"v").copied();
    let mut by_state = SharedFields::new();
    for (field, content) in fields {
        if let Some(slash) = field.iter().rposition(|byte| *byte == b'/') {
            let state = by_state.entry(&field[..slash]).or_insert_with(|| Vec::from_iter(version));
            state.push((&field[slash + 1..], content));
        }
    }
    Ok(by_state)
}

/// Returns the name of a state, if what is before the slash can be one.
pub(crate) fn state_name(bytes: &[u8]) -> Option<Name> {
    Name::new(str::from_utf8(bytes).ok()?).ok()
}
