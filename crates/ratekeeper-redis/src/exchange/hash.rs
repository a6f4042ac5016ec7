//! The hash that the quotas of requests share: every state of a key that no plan owns.

use std::collections::BTreeMap;

use ratekeeper::{Name, StoreError};
use redis::Value;

use crate::heal;

/// Fields by the name of the state that they belong to.
pub(crate) type Fields<'v> = BTreeMap<&'v [u8], Vec<heal::Field<'v>>>;

/// The fields of a hash that several quotas share, `NAME/FIELD`, by the name of the state. Each state is of the hash's
/// version.
pub(crate) fn by_name(fields: &[Value]) -> Result<Fields<'_>, StoreError> {
    let pairs = heal::pairs(fields)?;
    let version = pairs.iter().find(|(name, _)| *name == b"v").copied();
    let mut by_name = Fields::new();
    for (field, content) in pairs {
        if let Some(slash) = field.iter().rposition(|byte| *byte == b'/') {
            let state = by_name.entry(&field[..slash]).or_insert_with(|| Vec::from_iter(version));
            state.push((&field[slash + 1..], content));
        }
    }
    Ok(by_name)
}

/// The name of a state, if what is before the slash can be one.
pub(crate) fn name(bytes: &[u8]) -> Option<Name> {
    Name::new(str::from_utf8(bytes).ok()?).ok()
}
