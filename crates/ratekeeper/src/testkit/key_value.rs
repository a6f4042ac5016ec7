//! A key-value store in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::fake_clock::FakeClock;
use crate::port::{Answer, Clock, KeyValue};
use crate::{Nanos, Timestamp};

/// A [`KeyValue`] in memory whose values expire by a [`FakeClock`]. Clones share the values.
#[derive(Clone, Debug)]
pub struct MemoryValues {
    clock: FakeClock,
    values: Arc<Mutex<Values>>,
}

/// Every value, and when it expires.
type Values = HashMap<Vec<u8>, (String, Timestamp)>;

impl MemoryValues {
    /// Returns an empty store that goes by this clock.
    pub fn new(clock: FakeClock) -> Self {
        MemoryValues { clock, values: Arc::default() }
    }

    /// Returns the value under a key, and when it expires.
    pub fn value(&self, key: &[u8]) -> Option<(String, Timestamp)> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).filter(|(_, expires)| *expires > self.clock.now()).cloned()
    }

    /// Sets a value as another writer would.
    pub fn set(&self, key: &[u8], value: &str, ttl: Nanos) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(key.to_vec(), (value.to_string(), self.clock.now() + ttl));
    }
}

impl KeyValue for MemoryValues {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        Answer::ready(Ok(self.value(key).map(|(value, _)| value)))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let found = values.get(key).filter(|(_, expires)| *expires > now).map(|(value, _)| value.as_str());
        let same = found == old;
        if same {
            values.insert(key.to_vec(), (new.to_string(), now + ttl));
        }
        Answer::ready(Ok(same))
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Answer::ready(Ok(values.remove(key).is_some_and(|(_, expires)| expires > self.clock.now())))
    }
}
