//! The keys of a trace: each is stored once, and has a small number.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// All keys of a trace, numbered in the order of their first request.
#[derive(Debug, Default)]
pub struct TraceKeys {
    /// The numbers of keys, by the hash of the key.
    table: HashTable<u32>,
    known: Vec<KnownKey>,
    /// The bytes of all keys, one after another.
    bytes: Vec<u8>,
    hasher: RandomState,
}

#[derive(Debug)]
struct KnownKey {
    hash: u64,
    start: usize,
    len: usize,
    asked: u64,
    cost: u64,
}

/// There are more keys than numbers of 32 bits.
#[derive(Debug)]
pub(super) struct TooManyKeys;

impl TraceKeys {
    /// Counts a request of a key, and returns the key's number: a new one if the key is new.
    #[inline]
    pub(super) fn ask(&mut self, key: &[u8], cost: u64) -> Result<u32, TooManyKeys> {
        let hash = self.hasher.hash_one(key);
        let TraceKeys { table, known, bytes, .. } = self;
        let same = |number: &u32| {
            let known = &known[*number as usize];
            known.hash == hash && bytes[known.start..known.start + known.len] == *key
        };
        let number = match table.find(hash, same) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(known.len()).map_err(|_| TooManyKeys)?;
                known.push(KnownKey { hash, start: bytes.len(), len: key.len(), asked: 0, cost: 0 });
                bytes.extend_from_slice(key);
                table.insert_unique(hash, number, |number| known[*number as usize].hash);
                number
            }
        };
        let known = &mut self.known[number as usize];
        known.asked += 1;
        known.cost = known.cost.saturating_add(cost);
        Ok(number)
    }

    /// Returns how many keys there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the key of a number, escaped for display; requests without a key are those of everybody.
    pub fn show(&self, number: u32) -> String {
        let KnownKey { start, len, .. } = self.known[number as usize];
        match &self.bytes[start..start + len] {
            [] => "(everybody)".to_owned(),
            key => key.escape_ascii().to_string(),
        }
    }

    /// Returns how many requests a key made.
    pub fn asked(&self, number: u32) -> u64 {
        self.known[number as usize].asked
    }

    /// Returns the greatest sum of costs of any key.
    pub(super) fn greatest_cost(&self) -> u64 {
        self.known.iter().map(|known| known.cost).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number() {
        let mut keys = TraceKeys::default();
        let names: Vec<String> = (0..10_000).map(|n| format!("key{n}")).collect();
        for (expected, name) in names.iter().enumerate() {
            assert_eq!(keys.ask(name.as_bytes(), 2).unwrap() as usize, expected);
        }
        assert_eq!(keys.ask(b"key7", 5).unwrap(), 7);
        assert_eq!((keys.len(), keys.show(7), keys.asked(7)), (10_000, "key7".to_owned(), 2));
        assert_eq!(keys.greatest_cost(), 7);
        let none = keys.ask(b"", 1).unwrap();
        assert_eq!(keys.show(none), "(everybody)");
    }
}
