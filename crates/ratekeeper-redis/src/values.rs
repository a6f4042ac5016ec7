//! The server's strings as a key-value store, for [`CasStore`](ratekeeper::CasStore).

use std::sync::Arc;

use ratekeeper::port::{Answer, KeyValue};
use ratekeeper::{Nanos, StoreError, StoreErrorKind};
use redis::Value;

use crate::error::RedisError;
use crate::link::Link;
use crate::script::ScriptCall;
use crate::scripted::ScriptedStore;

/// The strings of a server, with compare-and-set.
///
/// `CasStore::new(store.values())` keeps the same text under the same keys as a [`RedisStore`](crate::RedisStore) in ASCII
/// with the same prefix, and as any service that keeps this layout: they share one limit. It decides by the clock of this
/// process and may have to repeat a decision that another writer has overtaken; use it where scripts are not allowed, or
/// to share a limit with a service that does the same.
///
/// Each call is one round trip. Must be used within a tokio runtime.
#[derive(Clone, Debug)]
pub struct RedisValues(Arc<ScriptedStore<Link>>);

impl RedisValues {
    pub(crate) fn new(scripted: Arc<ScriptedStore<Link>>) -> Self {
        RedisValues(scripted)
    }
}

impl KeyValue for RedisValues {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        Answer::later(async move {
            let mut command = redis::cmd("GET");
            command.arg(key);
            match self.0.runner.command(command).await? {
                Value::Nil => Ok(None),
                Value::BulkString(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| {
                    let message = "state: not ASCII; delete the key, or set the policy `reset`";
                    StoreError::new(StoreErrorKind::Unreadable, message).caused_by(error)
                }),
                _ => Err(RedisError::unparsed("GET", "a string").into()),
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
            let mut call = ScriptCall::with_capacity(4, key.len() + 2 * new.len() + 32);
            call.key(key);
            call.arg(new.as_bytes());
            call.number(ttl.ceil_millis().max(1));
            if let Some(old) = old {
                call.arg(old.as_bytes());
            }
            is_one("the script", &self.0.runner.run(&self.0.library.compare_and_set, &call).await?)
        })
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        Answer::later(async move {
            let mut command = redis::cmd("DEL");
            command.arg(key);
            is_one("DEL", &self.0.runner.command(command).await?)
        })
    }
}

fn is_one(command: &str, value: &Value) -> Result<bool, StoreError> {
    match value {
        Value::Int(number) => Ok(*number == 1),
        _ => Err(RedisError::unparsed(command, "a number").into()),
    }
}
