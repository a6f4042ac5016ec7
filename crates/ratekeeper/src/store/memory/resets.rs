//! Which states were forgotten lately, so that what was charged before is not given back after.

use super::snapshot_bytes::Bytes;
use super::snapshot_error::SnapshotError;
use super::tag::Tag;
use crate::{Nanos, Timestamp};

/// Resets that one shard remembers.
const MOST: usize = 32;

/// The latest resets in a shard. Bounded: when there are too many, all that was charged in the shard before the oldest
/// of them gets nothing back, which is less than the law (docs/semantics.md §2) allows and never more.
#[derive(Debug)]
pub(super) struct Resets {
    noted: Vec<Note>,
    /// Everything up to this instant counts as forgotten.
    floor: Timestamp,
}

#[derive(Debug)]
struct Note {
    tag: Tag,
    at: Timestamp,
    /// From here on nothing that was charged before could be given back anyway.
    until: Timestamp,
}

impl Default for Resets {
    fn default() -> Self {
        Resets { noted: Vec::new(), floor: Timestamp::MIN }
    }
}

impl Resets {
    /// The most bytes on the heap.
    pub(super) const MOST_BYTES: usize = MOST * size_of::<Note>();

    /// Returns the bytes on the heap.
    pub(super) fn heap_size(&self) -> usize {
        self.noted.capacity() * size_of::<Note>()
    }

    /// Notes that the tag's state was forgotten now. `reach` is how long it would still have counted: so long, and no longer, some
    /// of what was charged to it could have been given back.
    pub(super) fn note(&mut self, tag: Tag, now: Timestamp, reach: Nanos) {
        // An earlier reset of the same state may have had more to forget than this one.
        let earlier = self.noted.iter().find(|note| note.tag == tag).map_or(now, |note| note.until);
        let until = earlier.max(now + reach);
        self.noted.retain(|note| note.tag != tag && note.until > now);
        if self.noted.len() >= MOST {
            // The oldest is the first: instants of one shard never go back.
            self.floor = self.noted.remove(0).at;
        }
        self.noted.push(Note { tag, at: now, until });
    }

    /// Notes that many states were forgotten now, each with its reach.
    pub(super) fn note_all(&mut self, forgotten: &[(Tag, Nanos)], now: Timestamp) {
        if forgotten.len() <= MOST {
            return forgotten.iter().for_each(|(tag, reach)| self.note(*tag, now, *reach));
        }
        self.noted.clear();
        self.floor = now;
    }

    /// Writes the resets of the key at this place, and returns until when the last of them counts; none if there are none.
    pub(super) fn write(&self, now: Timestamp, place: u64, out: &mut Vec<u8>) -> Option<Timestamp> {
        let notes = || self.noted.iter().filter(|note| note.tag.place == place && note.until > now);
        out.extend_from_slice(&self.floor.as_nanos().to_be_bytes());
        // There are never more than some ten.
        out.push(u8::try_from(notes().count()).unwrap_or(u8::MAX));
        for Note { tag, at, until } in notes() {
            out.extend_from_slice(&tag.rest.to_be_bytes());
            out.extend_from_slice(&at.as_nanos().to_be_bytes());
            out.extend_from_slice(&until.as_nanos().to_be_bytes());
        }
        notes().map(|note| note.until).max()
    }

    /// Reads what [`write`](Resets::write) has written of the key at this place, besides what is noted already.
    pub(super) fn read(&mut self, place: u64, bytes: &mut Bytes<'_>) -> Result<(), SnapshotError> {
        self.floor = self.floor.max(bytes.instant()?);
        for _ in 0..bytes.byte()? {
            let tag = Tag { place, rest: bytes.word()? };
            let (at, until) = (bytes.instant()?, bytes.instant()?);
            self.noted.push(Note { tag, at, until });
        }
        // The oldest is the first.
        self.noted.sort_by_key(|note| note.at);
        Ok(())
    }

    /// Returns true if the tag's state was forgotten at that instant or later.
    pub(super) fn since(&self, tag: Tag, instant: Timestamp) -> bool {
        instant <= self.floor || self.noted.iter().any(|note| note.tag == tag && instant <= note.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_resets_forget_more_and_never_less() {
        let tag = |rest| Tag { place: 1, rest };
        let second = Timestamp::from_secs;
        let mut resets = Resets::default();
        assert!(!resets.since(tag(1), second(0)));
        for rest in 1..=MOST as u64 + 1 {
            resets.note(tag(rest), second(rest.cast_signed()), Nanos::from_secs(3_600));
        }
        assert_eq!(resets.noted.len(), MOST);
        assert!(resets.since(tag(1), second(1)) && resets.since(tag(99), second(1)), "the floor has risen");
        assert!(resets.since(tag(9), second(9)) && !resets.since(tag(9), second(10)));
        assert!(!resets.since(tag(99), second(2)));
        // A second reset with nothing to forget leaves the first in force.
        resets.note(tag(9), second(40), Nanos::ZERO);
        resets.note(tag(70), second(41), Nanos::ZERO);
        assert!(resets.since(tag(9), second(9)));
        // What is past its reach makes room without a word.
        resets.note(tag(50), second(4_000), Nanos::from_secs(1));
        assert_eq!(resets.noted.len(), 1);
    }
}
