//! A key-value store on Redis, for [`CasStore`](ratekeeper::CasStore).

use ratekeeper::port::{Answer, KeyValue};
use ratekeeper::{Nanos, StoreError, StoreErrorKind};
use redis::Value;

use crate::call::Call;
use crate::reply::odd;
use crate::store::RedisStore;

/// The strings of a server, with compare-and-set.
///
/// `CasStore::new(store.values())` keeps the same text under the same keys as a [`RedisStore`] in ASCII with the same
/// prefix, and as any service that keeps this layout: they share one limit. It decides by the clock of this process,
/// and loses races to others; use it where scripts are not allowed, or to share a limit with who does the same.
#[derive(Clone, Debug)]
pub struct RedisValues {
    store: RedisStore,
}

impl RedisValues {
    pub(crate) fn new(store: RedisStore) -> Self {
        RedisValues { store }
    }
}

impl KeyValue for RedisValues {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        Answer::later(async move {
            let mut command = redis::cmd("GET");
            command.arg(key);
            match self.store.link().command(command).await? {
                Value::Nil => Ok(None),
                Value::BulkString(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| {
                    let message = "state: not ASCII; delete the key, or set the policy `reset`";
                    StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error)
                }),
                _ => Err(odd("no string")),
            }
        })
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        Answer::later(async move {
            let mut call = Call::with_capacity(4, key.len() + 2 * new.len() + 32);
            call.key(key);
            call.arg(new.as_bytes());
            call.number(ttl.ceil_millis().max(1));
            if let Some(old) = old {
                call.arg(old.as_bytes());
            }
            is_one(&self.store.link().run(self.store.library().compare_and_set(), &call).await?)
        })
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        Answer::later(async move {
            let mut command = redis::cmd("DEL");
            command.arg(key);
            is_one(&self.store.link().command(command).await?)
        })
    }
}

fn is_one(value: &Value) -> Result<bool, StoreError> {
    match value {
        Value::Int(number) => Ok(*number == 1),
        _ => Err(odd("no number")),
    }
}
