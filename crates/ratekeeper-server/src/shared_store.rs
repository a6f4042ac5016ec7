//! A store that instances share, whichever it is: what a server does with it besides asking it.

use std::sync::Arc;

use ratekeeper::StoreError;
use ratekeeper::port::{Answer, Observer, Store};
use ratekeeper::store::Breaker;
use ratekeeper_redis::RedisStore;

use crate::error::{Explain, ServerError};
use crate::settings::{Settings, StoreLocation};
use crate::watch::FrontCounts;

/// A store that instances share.
#[derive(Clone, Debug)]
pub enum SharedStore {
    /// On Redis or Valkey.
    Redis(RedisStore),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PostgresFront),
}

/// A store on PostgreSQL, with the layers before it that one on Redis has.
#[cfg(feature = "postgres")]
#[derive(Clone, Debug)]
pub struct PostgresFront {
    front: ratekeeper::store::StoreFront<Arc<dyn Store>>,
    /// The store without its layers, to be looked at.
    bare: ratekeeper_postgres::PostgresStore,
    breaker: Option<Arc<Breaker>>,
}

impl SharedStore {
    /// Returns the store that the settings name; none if state is kept in memory. Sends nothing: a server that is down is found
    /// when it is up. A breaker tells the observer what becomes of it.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, or that this program cannot use it.
    pub fn of(settings: &Settings, observer: Arc<dyn Observer>) -> Result<Option<Self>, ServerError> {
        match &settings.store {
            StoreLocation::Memory => Ok(None),
            StoreLocation::Redis(url) => {
                // Every loop is a runtime, and so has a connection of its own. A way to it of its own besides, so that no
                // loop waits for another to find its connection.
                let connections =
                    std::num::NonZeroUsize::new(settings.loops).unwrap_or(std::num::NonZeroUsize::MIN);
                let builder = settings.redis.builder(url).connections(connections).observer(observer);
                Ok(Some(SharedStore::Redis(builder.build().explain(|| "--store")?)))
            }
            #[cfg(feature = "postgres")]
            StoreLocation::Postgres(url) => {
                PostgresFront::new(url, settings, observer).map(SharedStore::Postgres).map(Some)
            }
            #[cfg(not(feature = "postgres"))]
            StoreLocation::Postgres(_) => Err(ServerError::new(NO_POSTGRES)),
        }
    }

    /// Returns the store with all its layers.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            SharedStore::Redis(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(store) => Arc::clone(store.front.store()),
        }
    }

    /// Returns what it is called by those who look at it.
    pub fn kind(&self) -> &'static str {
        match self {
            SharedStore::Redis(_) => "redis",
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(_) => "postgres",
        }
    }

    /// Asks the server whether it serves, whatever its breaker says. An answer is not enough: a question must be decided.
    pub(crate) fn check(&self) -> Answer<'_, ()> {
        match self {
            SharedStore::Redis(store) => Answer::later(async { Ok::<_, StoreError>(store.check().await?) }),
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(store) => Answer::later(store.bare.check()),
        }
    }

    /// Returns the breakers before its servers.
    pub fn breakers(&self) -> Vec<Arc<Breaker>> {
        match self {
            SharedStore::Redis(store) => store.breakers(),
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(store) => store.breaker.iter().cloned().collect(),
        }
    }

    /// Returns what the layers in front of it have counted.
    pub fn counts(&self) -> FrontCounts {
        match self {
            SharedStore::Redis(store) => FrontCounts { denials: store.denials(), leases: store.leases() },
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(store) => {
                FrontCounts { denials: store.front.denials(), leases: store.front.leases() }
            }
        }
    }

    /// Gives back what is left of leases.
    pub(crate) async fn close(&self) {
        match self {
            SharedStore::Redis(store) => store.close().await,
            #[cfg(feature = "postgres")]
            SharedStore::Postgres(store) => store.front.close().await,
        }
    }
}

/// What is said where there is no such store.
#[cfg(not(feature = "postgres"))]
const NO_POSTGRES: &str = "--store: this program was built without the feature `postgres`";

#[cfg(feature = "postgres")]
impl PostgresFront {
    fn new(url: &str, settings: &Settings, observer: Arc<dyn Observer>) -> Result<Self, ServerError> {
        use ratekeeper::store::{DenialCache, DenialSettings, Guarded, LeaseSettings, StoreFront};

        let shared = &settings.redis;
        let store = settings.postgres.builder(url, shared).build().explain(|| "--store")?;
        let bare = store.clone();
        let (store, breaker): (Arc<dyn Store>, _) = match shared.breaker {
            Some(breaker) => {
                let breaker = Breaker::new(breaker).named("postgres").observer(observer);
                let guarded = Guarded::new(store, breaker).timeout(Some(shared.timeout));
                let breaker = guarded.breaker();
                (Arc::new(guarded), Some(breaker))
            }
            None => (Arc::new(store), None),
        };
        let trust = DenialCache::<Arc<dyn Store>>::DEFAULT_TRUST;
        let denials = (shared.denials > 0).then_some(DenialSettings { capacity: shared.denials, trust });
        let leases = LeaseSettings { keys: shared.leased_keys, own: shared.lease };
        Ok(PostgresFront { front: StoreFront::new(Arc::new(store), denials, leases), bare, breaker })
    }
}
