//! Rows as they were last seen.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What was last seen of a row.
#[derive(Clone, Debug)]
pub(crate) struct SeenRow {
    /// What the row was stamped with when it was written; 0 if there was none.
    pub(crate) stamp: i64,
    /// What was in it; nothing if there was none.
    pub(crate) record: Arc<[u8]>,
}

impl SeenRow {
    /// Returns what is seen of a row that is not there.
    pub(crate) fn absent() -> Self {
        SeenRow { stamp: 0, record: Arc::default() }
    }
}

/// The rows that were seen lately, within a bound of rows and one of bytes: two generations, of which the older one is
/// forgotten when the younger one is full.
///
/// What is forgotten costs one more statement when it is asked for, and nothing else: a row that has changed since is noticed
/// by its stamp.
#[derive(Debug)]
pub(crate) struct SeenRows {
    young: HashMap<Box<[u8]>, SeenRow>,
    old: HashMap<Box<[u8]>, SeenRow>,
    young_bytes: usize,
    most_rows: usize,
    most_bytes: usize,
}

/// What all workers have seen. They work on one thread, so that nobody waits for the lock, which is never held for long.
pub(crate) type SharedRows = Arc<Mutex<SeenRows>>;

/// What a row takes besides its bytes.
const ROW_BYTES: usize = 96;

impl SeenRows {
    /// Returns an empty memory of so many rows and bytes.
    pub(crate) fn new(most_rows: usize, most_bytes: usize) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        SeenRows { young, old, young_bytes: 0, most_rows: most_rows / 2, most_bytes: most_bytes / 2 }
    }

    /// Returns what was last seen of a key's row; if that is not known, none is supposed to be there.
    pub(crate) fn get(&mut self, key: &[u8]) -> SeenRow {
        if let Some(row) = self.young.get(key) {
            return row.clone();
        }
        match self.old.remove_entry(key) {
            Some((key, row)) => {
                self.put(&key, row.clone());
                row
            }
            None => SeenRow::absent(),
        }
    }

    /// Remembers a row. Of one that is not there, there is nothing to be remembered.
    pub(crate) fn put(&mut self, key: &[u8], row: SeenRow) {
        let size = |row: &SeenRow| ROW_BYTES + key.len() + row.record.len();
        self.old.remove(key);
        if let Some(before) = self.young.remove(key) {
            self.young_bytes -= size(&before);
        }
        let bytes = size(&row);
        if row.stamp == 0 || bytes > self.most_bytes {
            return;
        }
        if self.young.len() >= self.most_rows || self.young_bytes + bytes > self.most_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key.into(), row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stamp: i64, bytes: usize) -> SeenRow {
        SeenRow { stamp, record: vec![0; bytes].into() }
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let mut seen = SeenRows::new(8, 1 << 20);
        for number in 0..100_u8 {
            seen.put(&[number], row(i64::from(number) + 1, 10));
            assert_eq!(seen.get(&[0]).stamp, 1, "asked for all the time");
            assert!(seen.young.len() + seen.old.len() <= 8);
        }
        assert_eq!((seen.get(&[99]).stamp, seen.get(&[50]).stamp), (100, 0));
        seen.put(&[99], SeenRow::absent());
        assert_eq!(seen.get(&[99]).stamp, 0);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut seen = SeenRows::new(1_000, 10_000);
        for number in 0..100_u8 {
            seen.put(&[number], row(1, 1_000));
            seen.put(&[number], row(2, 1_500));
            let bytes: usize = seen.young.values().chain(seen.old.values()).map(|row| row.record.len()).sum();
            assert!(bytes <= 10_000 && seen.young_bytes <= 5_000);
        }
        seen.put(&[1], row(3, 20_000));
        assert_eq!(seen.get(&[1]).stamp, 0, "larger than all that there is room for");
    }
}
