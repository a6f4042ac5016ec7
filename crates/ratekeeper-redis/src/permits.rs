//! Concurrency limits that many instances share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::state::StorageKey;
use ratekeeper::{Decision, Key, Name, Reason, StoreError};
use redis::Value;

use crate::error::RedisError;
use crate::link::Link;
use crate::script::ScriptCall;
use crate::scripted::ScriptedStore;

/// A concurrency limit that all instances share: at most `limit` permits are held at once.
///
/// A [`RedisPermit`] is a lease: whoever holds it longer [renews](RedisPermit::renew) it in time, and the permit of a
/// holder that crashed comes back when its lease ends. All times are the server's. Must be used within a tokio runtime.
///
/// ```no_run
/// # async fn example(store: ratekeeper_redis::RedisStore) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ratekeeper::Key;
///
/// let exports = store.permits(Key::new("tenant:7")?, &"exports".parse()?, 4, Duration::from_secs(30));
/// match exports.try_acquire().await? {
///     Ok(permit) => {
///         // … at most four at once, on all instances …
///         permit.release().await?;
///     }
///     Err(refused) => println!("{} exports are running", refused.limit),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisPermits {
    scripted: Arc<ScriptedStore<Link>>,
    key: Box<[u8]>,
    limit: u64,
    lease: Duration,
}

/// The shortest lease: a shorter one would end before the answer arrives.
const LEAST_LEASE: Duration = Duration::from_millis(1);

/// The longest lease, a hundred years: a server refuses an expiry beyond the end of its clock, and only after the permit was
/// given.
const MOST_LEASE: Duration = Duration::from_secs(100 * 365 * 86_400);

impl RedisPermits {
    pub(crate) fn new(
        scripted: Arc<ScriptedStore<Link>>,
        key: Key<'_>,
        name: &Name,
        limit: u64,
        lease: Duration,
    ) -> Self {
        let mut written = StorageKey::new(&scripted.settings.prefix, key).to_bytes();
        // No name has a `!`: no plan's state is here.
        written.extend_from_slice(b":!");
        written.extend_from_slice(name.as_str().as_bytes());
        let lease = lease.clamp(LEAST_LEASE, MOST_LEASE);
        RedisPermits { scripted, key: written.into(), limit, lease }
    }

    /// Takes a permit if one is free; otherwise returns the refusal, with [`Reason::AtCapacity`] and without a
    /// `retry_after`: when one comes back cannot be foreseen. One round trip.
    ///
    /// # Errors
    ///
    /// What keeps the server from answering. It may have given a permit all the same: that is given back in the
    /// background, or else comes back when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is done gives back what the server may have given, in the same way.
    pub async fn try_acquire(&self) -> Result<Result<RedisPermit, Decision>, StoreError> {
        // Dropped on any way out but success, and then given back.
        let permit = RedisPermit { permits: self.clone(), id: unique(), is_held: true };
        let limit = self.limit.to_string();
        let taken = self.run(b"a", &[permit.id.as_bytes(), limit.as_bytes(), &self.micros()]).await;
        match taken {
            Ok((true, _)) => Ok(Ok(permit)),
            Ok((false, _)) => {
                permit.forget();
                Ok(Err(Decision::uninformed(false, self.limit, Reason::AtCapacity)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns how many permits are held now. One round trip.
    pub async fn held(&self) -> Result<u64, StoreError> {
        self.run(b"p", &[b""]).await.map(|(_, held)| held)
    }

    fn micros(&self) -> Vec<u8> {
        self.lease.as_micros().to_string().into_bytes()
    }

    async fn run(&self, verb: &[u8], arguments: &[&[u8]]) -> Result<(bool, u64), StoreError> {
        let mut call = ScriptCall::with_capacity(2 + arguments.len(), 128);
        call.key(&self.key);
        call.arg(verb);
        arguments.iter().for_each(|argument| call.arg(argument));
        let value = self.scripted.runner.run(&self.scripted.library.permits, &call).await?;
        match value.as_sequence() {
            Some([Value::Int(done), Value::Int(held)]) => Ok((*done == 1, u64::try_from(*held).unwrap_or(0))),
            _ => Err(RedisError::unparsed("the script", "an outcome and a count of permits").into()),
        }
    }
}

impl fmt::Debug for RedisPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_ascii().to_string();
        f.debug_struct("RedisPermits")
            .field("key", &key)
            .field("limit", &self.limit)
            .field("lease", &self.lease)
            .finish()
    }
}

/// The right to be one of those in flight, until its lease ends. When it is dropped it is given back in the background, if
/// that happens within a tokio runtime; otherwise it comes back when its lease ends.
#[must_use = "a permit that is dropped is given back"]
#[derive(Debug)]
pub struct RedisPermit {
    permits: RedisPermits,
    id: String,
    is_held: bool,
}

impl RedisPermit {
    /// Returns the identifier of this permit, which no other has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts the lease anew, and returns whether the permit was still held. If its lease had ended, another caller may
    /// hold it by now. One round trip.
    pub async fn renew(&mut self) -> Result<bool, StoreError> {
        let (held, _) = self.permits.run(b"n", &[self.id.as_bytes(), &self.permits.micros()]).await?;
        self.is_held = held;
        Ok(held)
    }

    /// Gives the permit back, and returns whether it was still held. One round trip.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is done gives the permit back in the background.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let (was_held, _) = self.permits.run(b"r", &[self.id.as_bytes()]).await?;
        self.is_held = false;
        Ok(was_held)
    }

    /// Drops a permit that was never given.
    fn forget(mut self) {
        self.is_held = false;
    }
}

impl Drop for RedisPermit {
    fn drop(&mut self) {
        if !self.is_held {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (permits, id) = (self.permits.clone(), std::mem::take(&mut self.id));
        runtime.spawn(async move {
            // Best effort: should it fail, the lease ends by itself.
            if let Err(error) = permits.run(b"r", &[id.as_bytes()]).await {
                tracing::debug!(%error, "permit not given back: it comes back when its lease ends");
            }
        });
    }
}

/// Returns a name that no other permit has in any process: 128 bits from the system's randomness, and a count.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = || RandomState::new().hash_one(count);
    format!("{:016x}{:016x}{count:x}", random(), random())
}
