//! Lines that wait to be written: bounded, and put in order of time.
//!
//! Event loops decide at once, so that lines come a little out of order. Those of the last moments wait for others that may be
//! earlier.

use std::ops::Range;

use ratekeeper::{Nanos, Timestamp};

/// The most bytes that wait, [what is known of each line](WAITING_LINE) included. More than the thread that writes needs to
/// catch up after a pause. It has as much again while it writes.
const MOST_BYTES: usize = 8 << 20;

/// Bytes that wait with each line: when it was asked, and where it is.
const WAITING_LINE: usize = size_of::<(Timestamp, Range<usize>)>();

/// So many bytes are to be written at once.
const MANY_BYTES: usize = MOST_BYTES / 4;

/// How much later than others a line may come.
const LATE: Nanos = Nanos::from_millis(10);

/// Lines that wait, and when each was asked.
#[derive(Debug, Default)]
pub(super) struct RecordBuffer {
    bytes: Vec<u8>,
    lines: Vec<(Timestamp, Range<usize>)>,
}

/// What has become of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddedLine {
    /// It waits, with few others.
    Few,
    /// It waits, and from now on those that do are many: somebody should write them.
    Many,
    /// There was no room for it.
    NoRoom,
}

impl RecordBuffer {
    /// Adds a line, which `write` writes.
    pub(super) fn add(&mut self, at: Timestamp, write: impl FnOnce(&mut Vec<u8>)) -> AddedLine {
        let (start, before) = (self.bytes.len(), self.size());
        if before >= MOST_BYTES {
            return AddedLine::NoRoom;
        }
        write(&mut self.bytes);
        self.lines.push((at, start..self.bytes.len()));
        if before < MANY_BYTES && self.size() >= MANY_BYTES { AddedLine::Many } else { AddedLine::Few }
    }

    /// Returns how many bytes wait.
    fn size(&self) -> usize {
        self.bytes.len() + self.lines.len() * WAITING_LINE
    }

    /// Moves all lines of another to the end of this.
    pub(super) fn append(&mut self, other: &mut RecordBuffer) {
        let before = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        let moved = |(at, range): (Timestamp, Range<usize>)| (at, before + range.start..before + range.end);
        self.lines.extend(other.lines.drain(..).map(moved));
    }

    /// Calls `each` with the lines in order of time, and forgets them. Those of the last moments before `now` stay; at the end,
    /// which is at no time, none do.
    pub(super) fn drain(&mut self, now: Option<Timestamp>, mut each: impl FnMut(&[u8])) {
        self.lines.sort_by_key(|(at, _)| *at);
        let is_settled = |(at, _): &(Timestamp, Range<usize>)| now.is_none_or(|now| now.since(*at) > LATE);
        let settled = self.lines.partition_point(is_settled);
        self.lines[..settled].iter().for_each(|(_, range)| each(&self.bytes[range.clone()]));
        let mut rest = RecordBuffer::default();
        for (at, range) in self.lines.drain(settled..) {
            let start = rest.bytes.len();
            rest.bytes.extend_from_slice(&self.bytes[range]);
            rest.lines.push((at, start..rest.bytes.len()));
        }
        *self = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn lines_are_put_in_order_and_the_last_ones_wait() {
        let (mut loops, mut writer) = (RecordBuffer::default(), RecordBuffer::default());
        let drained = |writer: &mut RecordBuffer, now: Option<i64>| {
            let mut out = String::new();
            writer.drain(now.map(at), |line| out.push_str(std::str::from_utf8(line).unwrap()));
            out
        };
        for (millis, line) in [(100, "c "), (99, "b "), (112, "e ")] {
            loops.add(at(millis), |out| out.extend_from_slice(line.as_bytes()));
        }
        writer.append(&mut loops);
        assert_eq!(drained(&mut writer, Some(112)), "b c ");
        for (millis, line) in [(90, "late "), (111, "d "), (130, "f ")] {
            loops.add(at(millis), |out| out.extend_from_slice(line.as_bytes()));
        }
        writer.append(&mut loops);
        assert_eq!(drained(&mut writer, Some(130)), "late d e ");
        // Time settles the last line, though no other follows.
        assert_eq!(drained(&mut writer, Some(140)), "");
        assert_eq!(drained(&mut writer, Some(141)), "f ");
        loops.add(at(150), |out| out.extend_from_slice(b"g "));
        writer.append(&mut loops);
        assert_eq!(drained(&mut writer, None), "g ");
        assert_eq!(drained(&mut writer, None), "");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut buffer = RecordBuffer::default();
        let line = [b'x'; 1 << 10];
        let added: Vec<AddedLine> =
            (0..20_000).map(|_| buffer.add(at(0), |out| out.extend_from_slice(&line))).collect();
        let count = |what| added.iter().filter(|added| **added == what).count();
        assert_eq!(count(AddedLine::Many), 1, "somebody is called once");
        let least = MOST_BYTES / (line.len() + WAITING_LINE);
        assert!((least..=least + 1).contains(&(count(AddedLine::Few) + 1)));
    }
}
