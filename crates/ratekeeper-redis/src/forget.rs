//! Forgetting all keys that start alike: every server is asked for them, and each is forgotten by itself.
//!
//! The store's names begin with the key, so `SCAN` finds them: a thousand at a time, so that no other command waits for
//! long. In a cluster, all masters are asked. What is found is forgotten by a script that also notes the reset, so that a
//! refund of what was charged before gets nothing.

use futures_util::{StreamExt, TryStreamExt, stream};
use ratekeeper::{StoreError, StoreErrorKind};
use redis::Value;

use crate::call::Call;
use crate::place;
use crate::reply::odd;
use crate::scripted::{Run, Scripted};

/// Names that the server looks at in one step: well below a millisecond.
const AT_A_TIME: usize = 1_000;

/// How many are being forgotten at once.
const AT_ONCE: usize = 64;

/// Forgets every state of every key that starts like this. Tells under how many names there was something: the rules of
/// a plan share one, unless it is kept in hashes, and so do the quotas that requests bring.
pub(crate) async fn forget<R: Run>(scripted: &Scripted<R>, prefix: &[u8]) -> Result<u64, StoreError> {
    let holders = scripted.runner.holders().await?;
    if holders.is_empty() {
        return Err(StoreError::new(StoreErrorKind::Unsupported, "nobody here can list keys"));
    }
    let mut start = Vec::new();
    place::write_start(&scripted.settings.prefix, prefix, &mut start);
    let pattern = pattern(&start);
    let mut forgotten = 0;
    for holder in holders {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(AT_A_TIME);
            let (next, mut names) = page(holder.send(&scan).await?)?;
            names.retain(|name| name.starts_with(&start) && place::is_state(name));
            forgotten += stream::iter(names)
                .map(|name| forget_one(scripted, name))
                .buffer_unordered(AT_ONCE)
                .try_fold(0, async |sum, forgotten| Ok(sum + forgotten))
                .await?;
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    Ok(forgotten)
}

async fn forget_one<R: Run>(scripted: &Scripted<R>, name: Vec<u8>) -> Result<u64, StoreError> {
    let mut call = Call::with_capacity(3, 2 * name.len() + 32);
    call.key(&name);
    call.buffer().extend_from_slice(&name);
    call.buffer().extend_from_slice(place::RESET);
    call.end_key();
    if let Some(clock) = &scripted.settings.given {
        call.number(clock.now().as_nanos());
    }
    match scripted.runner.run(scripted.library.forget(), &call).await? {
        Value::Int(count) => Ok(u64::from(count > 0)),
        _ => Err(odd("no number")),
    }
}

/// What a server answers to `SCAN`: where to go on, and names. Some come twice.
fn page(reply: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), StoreError> {
    let Value::Array(parts) = reply else { return Err(odd("no page of names")) };
    let Ok([Value::BulkString(cursor), Value::Array(names)]) = <[Value; 2]>::try_from(parts) else {
        return Err(odd("no page of names"));
    };
    let names = names.into_iter().map(|name| match name {
        Value::BulkString(name) => Ok(name),
        _ => Err(odd("no name")),
    });
    Ok((cursor, names.collect::<Result<_, _>>()?))
}

/// A pattern for all names that start like this: what means something in a pattern is escaped.
fn pattern(start: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(start.len() + 8);
    for byte in start {
        if b"*?[]\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_it_says() {
        let mut start = Vec::new();
        place::write_start("rate*limiter", b"a{b}%[c]?\\", &mut start);
        assert_eq!(start, b"rate*limiter:{a%7Bb%7D%25[c]?\\");
        assert_eq!(pattern(&start), b"rate\\*limiter:{a%7Bb%7D%25\\[c\\]\\?\\\\*");
    }

    #[test]
    fn permits_and_notes_are_no_states() {
        for name in ["p:{a}", "p:{a}::", "p:{a}:plan", "p:{a}:plan:rule", "p:{%21}"] {
            assert!(place::is_state(name.as_bytes()), "{name}");
        }
        for name in ["p:{a}:!slots", "p:{a}%reset", "p:{a}:plan%reset", "p:{a"] {
            assert!(!place::is_state(name.as_bytes()), "{name}");
        }
    }
}
