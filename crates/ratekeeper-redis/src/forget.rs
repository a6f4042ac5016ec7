//! Forgetting all keys that start alike: every server is asked for them, and each is deleted by itself.
//!
//! The store's names begin with the key, so `SCAN` finds them: a thousand at a time, so that no other command waits for
//! long. In a cluster, all masters are asked, and a name whose slot has moved is deleted where it is by then.
//!
//! Nothing is left behind, neither when the keys were reset now nor when they were reset before: who forgets keys wants
//! the memory back, and notes would take as much as the states. The price is told at [`Store::forget`].
//!
//! [`Store::forget`]: ratekeeper::port::Store::forget

use futures_util::{StreamExt, stream};
use ratekeeper::{StoreError, StoreErrorKind};
use redis::Value;

use crate::link::{Holder, Link};
use crate::place::{self, Kept};
use crate::reply::odd;
use crate::scripted::{Run, Scripted};

/// Names that the server looks at in one step: well below a millisecond.
const AT_A_TIME: usize = 1_000;

/// How many are being deleted at once.
const AT_ONCE: usize = 64;

/// Forgets every state of every key that starts like this. Tells under how many names there was something: the rules of
/// a plan share one, unless it is kept in hashes, and so do the quotas that requests bring.
///
/// What fails for one name or one server does not keep the others: the first error is told at the end.
pub(crate) async fn forget<R: Run>(scripted: &Scripted<R>, prefix: &[u8]) -> Result<u64, StoreError> {
    let Some(link) = scripted.runner.link() else {
        return Err(StoreError::new(StoreErrorKind::Unsupported, "nobody here can list keys"));
    };
    let mut start = Vec::new();
    place::write_start(&scripted.settings.prefix, prefix, &mut start);
    let mut outcome = Outcome::default();
    for holder in link.holders().await? {
        if let Err(error) = forget_at(link, &holder, &start, &mut outcome).await {
            outcome.failed(error);
        }
    }
    outcome.told()
}

/// What was forgotten, and what was not.
#[derive(Default)]
struct Outcome {
    forgotten: u64,
    failures: u64,
    first: Option<StoreError>,
}

impl Outcome {
    fn failed(&mut self, error: StoreError) {
        self.failures += 1;
        self.first.get_or_insert(error);
    }

    fn told(self) -> Result<u64, StoreError> {
        let Outcome { forgotten, failures, first } = self;
        let Some(first) = first else { return Ok(forgotten) };
        let message = format!(
            "{forgotten} states were forgotten, others were not: forget them again; failures: {failures}, the first: \
             {first}"
        );
        Err(StoreError::new(first.kind(), message).because(first.reason()).caused_by(first))
    }
}

/// Forgets what one server has. Fails if it does not list its names to the end.
async fn forget_at(
    link: &Link,
    holder: &Holder,
    start: &[u8],
    outcome: &mut Outcome,
) -> Result<(), StoreError> {
    let pattern = pattern(start);
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(AT_A_TIME);
        let (next, names) = page(holder.send(&scan).await?)?;
        let names = names.into_iter().filter(|name| name.starts_with(start));
        let kept = names.filter_map(|name| place::kept(&name).map(|kept| (name, kept)));
        let mut deleted = stream::iter(kept)
            .map(async |(name, kept)| (kept, delete(link, holder, &name).await))
            .buffer_unordered(AT_ONCE);
        while let Some((kept, result)) = deleted.next().await {
            match result {
                Ok(was_there) => outcome.forgotten += u64::from(was_there && kept == Kept::State),
                Err(error) => outcome.failed(error),
            }
        }
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// Tells whether there was something under this name. The server that listed it is asked, whatever its breaker says: one
/// that is full refuses new keys, which opens the breaker, and is never to refuse the remedy.
async fn delete(link: &Link, holder: &Holder, name: &[u8]) -> Result<bool, StoreError> {
    let mut command = redis::cmd("UNLINK");
    command.arg(name);
    let reply = match holder.send(&command).await {
        Err(error) if error.redirect().is_some() => link.command(command).await,
        known => known,
    };
    match reply? {
        Value::Int(count) => Ok(count > 0),
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
    fn permits_are_no_states_and_a_note_goes_with_its_state() {
        for name in ["p:{a}", "p:{a}::", "p:{a}:plan", "p:{a}:plan:rule", "p:{%21}"] {
            assert_eq!(place::kept(name.as_bytes()), Some(Kept::State), "{name}");
        }
        for name in ["p:{a}%reset", "p:{a}:plan%reset", "p:{a}::%reset"] {
            assert_eq!(place::kept(name.as_bytes()), Some(Kept::Reset), "{name}");
        }
        for name in ["p:{a}:!slots", "p:{a"] {
            assert_eq!(place::kept(name.as_bytes()), None, "{name}");
        }
    }
}
