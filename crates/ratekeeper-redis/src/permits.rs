//! Concurrency limits that many instances share.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::{Key, Name, StoreError};
use redis::Value;

use crate::call::Call;
use crate::reply::odd;
use crate::store::RedisStore;

/// At most so many in flight at once, over all instances.
///
/// A [`Permit`] is a lease: whoever holds it longer [renews](Permit::renew) it in time, and the permit of a holder that
/// crashed comes back when its lease ends. All times are the server's.
///
/// ```no_run
/// # async fn example(store: ratekeeper_redis::RedisStore) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use ratekeeper::Key;
///
/// let exports = store.permits(Key::new("tenant:7")?, &"exports".parse()?, 4, Duration::from_secs(30));
/// if let Some(permit) = exports.try_acquire().await? {
///     // … at most four at once, on all instances …
///     permit.release().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Permits {
    store: RedisStore,
    key: Box<[u8]>,
    limit: u64,
    lease: Duration,
}

/// The shortest lease: what is shorter would end before the answer is there.
const LEAST_LEASE: Duration = Duration::from_millis(1);

/// The longest, a hundred years: a server refuses an expiry that is beyond its clock, after the permit was given.
const MOST_LEASE: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Permits {
    pub(crate) fn new(store: RedisStore, key: Key<'_>, name: &Name, limit: u64, lease: Duration) -> Self {
        let mut written = Vec::new();
        crate::place::write_tagged(store.prefix(), key, &mut written);
        // No name has a `!`: no plan's state is here.
        written.extend_from_slice(b":!");
        written.extend_from_slice(name.as_str().as_bytes());
        Permits { store, key: written.into(), limit, lease: lease.clamp(LEAST_LEASE, MOST_LEASE) }
    }

    /// Takes a permit if there is one.
    ///
    /// When the answer does not come, the server may have given one: it is given back in the background, and else
    /// comes back with the end of its lease.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, StoreError> {
        // Dropped on any way out but success, and then given back.
        let permit = Permit { permits: self.clone(), id: unique(), is_held: true };
        let limit = self.limit.to_string();
        let taken = self.run(b"a", &[permit.id.as_bytes(), limit.as_bytes(), &self.micros()]).await;
        match taken {
            Ok((true, _)) => Ok(Some(permit)),
            Ok((false, _)) => {
                permit.forget();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// How many are held now.
    pub async fn held(&self) -> Result<u64, StoreError> {
        self.run(b"p", &[b""]).await.map(|(_, held)| held)
    }

    fn micros(&self) -> Vec<u8> {
        self.lease.as_micros().to_string().into_bytes()
    }

    async fn run(&self, verb: &[u8], arguments: &[&[u8]]) -> Result<(bool, u64), StoreError> {
        let mut call = Call::with_capacity(2 + arguments.len(), 128);
        call.key(&self.key);
        call.arg(verb);
        arguments.iter().for_each(|argument| call.arg(argument));
        let value = self.store.link().run(self.store.library().permits(), &call).await?;
        let Value::Array(items) = value else { return Err(odd("no list")) };
        match items.as_slice() {
            [Value::Int(done), Value::Int(held)] => Ok((*done == 1, u64::try_from(*held).unwrap_or(0))),
            _ => Err(odd("no count of permits")),
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_ascii().to_string();
        f.debug_struct("Permits")
            .field("key", &key)
            .field("limit", &self.limit)
            .field("lease", &self.lease)
            .finish()
    }
}

/// The right to be one of those in flight, until its lease ends. Dropped, it is given back in the background, as far
/// as there is a runtime to do it.
#[must_use = "a permit that is dropped is given back"]
#[derive(Debug)]
pub struct Permit {
    permits: Permits,
    id: String,
    is_held: bool,
}

impl Permit {
    /// What tells it from every other permit.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts the lease anew. False if it had ended: the permit may be somebody else's by now.
    pub async fn renew(&mut self) -> Result<bool, StoreError> {
        let (held, _) = self.permits.run(b"n", &[self.id.as_bytes(), &self.permits.micros()]).await?;
        self.is_held = held;
        Ok(held)
    }

    /// Gives it back. False if its lease had ended.
    pub async fn release(mut self) -> Result<bool, StoreError> {
        let (was_held, _) = self.permits.run(b"r", &[self.id.as_bytes()]).await?;
        self.is_held = false;
        Ok(was_held)
    }

    /// It was never given.
    fn forget(mut self) {
        self.is_held = false;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_held {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (permits, id) = (self.permits.clone(), std::mem::take(&mut self.id));
        runtime.spawn(async move {
            // Best effort: should it fail, the lease ends by itself.
            if let Err(error) = permits.run(b"r", &[id.as_bytes()]).await {
                tracing::debug!(%error, "a permit was not given back; its lease will end");
            }
        });
    }
}

/// A name that no other permit has, in no process: 128 bits from the system's randomness, and a count.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let random = || RandomState::new().hash_one(count);
    format!("{:016x}{:016x}{count:x}", random(), random())
}
