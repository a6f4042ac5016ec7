//! Forgets all keys that start alike: lists them on every server, and deletes each by itself.
//!
//! The store's names begin with the key, so `SCAN` finds them: a thousand at a time, so that no other command waits for
//! long. In a cluster, all masters are asked, and a name whose slot has moved is deleted where it is by then.
//!
//! Nothing is left behind, not even a note of when the keys were reset: the purpose is to free memory, and notes
//! would take as much as the states. See [`Store::forget`] for the price.
//!
//! [`Store::forget`]: ratekeeper::port::Store::forget

use futures_util::{StreamExt, stream};
use ratekeeper::StoreError;
use ratekeeper::state::StorageKey;
use redis::Value;

use crate::error::RedisError;
use crate::exchange::{KeyContent, key_content};
use crate::link::{KeyHolder, Link};

/// How many names a server looks at in one step: well below a millisecond.
const AT_A_TIME: usize = 1_000;

/// How many names are being deleted at the same time.
const AT_ONCE: usize = 64;

/// Forgets every state of every key that starts with `start`. Returns under how many names there was something: the rules
/// of a plan share one, unless it is kept in hashes, and so do the quotas that requests bring.
///
/// # Errors
///
/// The first failure, with how many states were forgotten all the same: what fails for one name or one server does not
/// keep the others from being deleted.
pub(crate) async fn forget(link: &Link, prefix: &str, start: &[u8]) -> Result<u64, StoreError> {
    let mut names = Vec::new();
    StorageKey::write_start(prefix, start, &mut names);
    let mut progress = ForgetProgress::default();
    for holder in link.holders().await? {
        if let Err(error) = forget_at(link, &holder, &names, &mut progress).await {
            progress.fail(error.into());
        }
    }
    progress.finish()
}

/// How many states are forgotten so far, and what has failed.
#[derive(Default)]
struct ForgetProgress {
    forgotten: u64,
    failures: u64,
    first: Option<StoreError>,
}

impl ForgetProgress {
    fn fail(&mut self, error: StoreError) {
        self.failures += 1;
        self.first.get_or_insert(error);
    }

    fn finish(self) -> Result<u64, StoreError> {
        let ForgetProgress { forgotten, failures, first } = self;
        let Some(first) = first else { return Ok(forgotten) };
        let message = format!(
            "{forgotten} states were forgotten, others were not: forget them again; failures: {failures}, the first: \
             {first}"
        );
        Err(StoreError::new(first.kind(), message).because(first.reason()).caused_by(first))
    }
}

/// Forgets what one server holds. Fails if it does not list its names to the end.
async fn forget_at(
    link: &Link,
    holder: &KeyHolder,
    start: &[u8],
    progress: &mut ForgetProgress,
) -> Result<(), RedisError> {
    let pattern = pattern(start);
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(AT_A_TIME);
        let (next, names) = page(holder.send(&scan).await?)?;
        let names = names.into_iter().filter(|name| name.starts_with(start));
        let ours = names.filter_map(|name| key_content(&name).map(|content| (name, content)));
        let mut deleted = stream::iter(ours)
            .map(async |(name, content)| (content, delete(link, holder, &name).await))
            .buffer_unordered(AT_ONCE);
        while let Some((content, result)) = deleted.next().await {
            match result {
                Ok(was_there) => progress.forgotten += u64::from(was_there && content == KeyContent::State),
                Err(error) => progress.fail(error.into()),
            }
        }
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Deletes a name, and returns whether there was something under it. The server that listed it is asked whatever its
/// breaker says: a full server refuses new keys, which opens the breaker, and deleting is the remedy.
async fn delete(link: &Link, holder: &KeyHolder, name: &[u8]) -> Result<bool, RedisError> {
    let mut command = redis::cmd("UNLINK");
    command.arg(name);
    let reply = match holder.send(&command).await {
        Err(error) if error.redirect().is_some() => link.command(command).await,
        known => known,
    };
    match reply? {
        Value::Int(count) => Ok(count > 0),
        _ => Err(RedisError::unparsed("UNLINK", "a number")),
    }
}

/// Reads the reply to `SCAN`: where to go on, and names. Some come twice.
pub(crate) fn page(reply: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), RedisError> {
    let unparsed = || RedisError::unparsed("SCAN", "a cursor and an array of names");
    let Value::Array(parts) = reply else { return Err(unparsed()) };
    let Ok([Value::BulkString(cursor), Value::Array(names)]) = <[Value; 2]>::try_from(parts) else {
        return Err(unparsed());
    };
    let names = names.into_iter().map(|name| match name {
        Value::BulkString(name) => Ok(name),
        _ => Err(unparsed()),
    });
    Ok((cursor, names.collect::<Result<_, _>>()?))
}

/// Returns the pattern of all names that start like this. What has a meaning in a pattern is escaped.
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
        StorageKey::write_start("rate*limiter", b"a{b}%[c]?\\", &mut start);
        assert_eq!(start, b"rate*limiter:{a%7Bb%7D%25[c]?\\");
        assert_eq!(pattern(&start), b"rate\\*limiter:{a%7Bb%7D%25\\[c\\]\\?\\\\*");
    }

    #[test]
    fn permits_are_no_states_and_a_note_goes_with_its_state() {
        for name in ["p:{a}", "p:{a}::", "p:{a}:plan", "p:{a}:plan:rule", "p:{%21}"] {
            assert_eq!(key_content(name.as_bytes()), Some(KeyContent::State), "{name}");
        }
        for name in ["p:{a}%reset", "p:{a}:plan%reset", "p:{a}::%reset"] {
            assert_eq!(key_content(name.as_bytes()), Some(KeyContent::Reset), "{name}");
        }
        for name in ["p:{a}%holds", "p:{a}%leases"] {
            assert_eq!(key_content(name.as_bytes()), Some(KeyContent::Holds), "{name}");
        }
        for name in ["p:{a}:!slots", "p:{a"] {
            assert_eq!(key_content(name.as_bytes()), None, "{name}");
        }
    }
}
