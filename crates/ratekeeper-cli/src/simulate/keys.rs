//! Who asked: every key once, and a small number to call it by.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// All keys of a trace.
#[derive(Debug, Default)]
pub struct TraceKeys {
    /// Numbers, found by the hash of what they stand for.
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

/// So many keys have numbers of 32 bits.
#[derive(Debug)]
pub(super) struct TooManyKeys;

impl TraceKeys {
    /// The key's number, a new one if it was never seen, and one more request of it.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if nobody asked.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The key of a number, as it can be shown. No key at all is everybody together.
    pub fn show(&self, number: u32) -> String {
        let KnownKey { start, len, .. } = self.known[number as usize];
        match &self.bytes[start..start + len] {
            [] => "(everybody)".to_owned(),
            key => key.escape_ascii().to_string(),
        }
    }

    /// How often a key asked.
    pub fn asked(&self, number: u32) -> u64 {
        self.known[number as usize].asked
    }

    /// The most that any key asked for, over the whole trace.
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
