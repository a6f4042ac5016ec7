//! Lines that wait to be written: bounded, and put in order of time.
//!
//! Event loops decide at once, so that lines come a little out of order. Those of the last moments wait for others that may be
//! earlier.

use std::ops::Range;

use ratekeeper::{Nanos, Timestamp};

/// The most bytes that wait. More than the thread that writes needs to catch up after a pause.
const MOST_BYTES: usize = 8 << 20;

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
        let start = self.bytes.len();
        if start >= MOST_BYTES {
            return AddedLine::NoRoom;
        }
        write(&mut self.bytes);
        let end = self.bytes.len();
        self.lines.push((at, start..end));
        if start < MANY_BYTES && end >= MANY_BYTES { AddedLine::Many } else { AddedLine::Few }
    }

    /// Moves all lines of another to the end of this.
    pub(super) fn append(&mut self, other: &mut RecordBuffer) {
        let before = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        let moved = |(at, range): (Timestamp, Range<usize>)| (at, before + range.start..before + range.end);
        self.lines.extend(other.lines.drain(..).map(moved));
    }

    /// Calls `each` with the lines in order of time, and forgets them; unless it is the `end`, those of the last moments stay.
    pub(super) fn drain(&mut self, is_end: bool, mut each: impl FnMut(&[u8])) {
        self.lines.sort_by_key(|(at, _)| *at);
        let newest = self.lines.last().map_or(Timestamp::MIN, |(at, _)| *at);
        let is_settled = |(at, _): &(Timestamp, Range<usize>)| is_end || newest.since(*at) > LATE;
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
        let drained = |writer: &mut RecordBuffer, is_end| {
            let mut out = String::new();
            writer.drain(is_end, |line| out.push_str(std::str::from_utf8(line).unwrap()));
            out
        };
        for (millis, line) in [(100, "c "), (99, "b "), (112, "e ")] {
            loops.add(at(millis), |out| out.extend_from_slice(line.as_bytes()));
        }
        writer.append(&mut loops);
        assert_eq!(drained(&mut writer, false), "b c ");
        for (millis, line) in [(90, "late "), (111, "d "), (130, "f ")] {
            loops.add(at(millis), |out| out.extend_from_slice(line.as_bytes()));
        }
        writer.append(&mut loops);
        assert_eq!(drained(&mut writer, false), "late d e ");
        assert_eq!(drained(&mut writer, true), "f ");
        assert_eq!(drained(&mut writer, true), "");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut buffer = RecordBuffer::default();
        let line = [b'x'; 1 << 10];
        let added: Vec<AddedLine> =
            (0..20_000).map(|_| buffer.add(at(0), |out| out.extend_from_slice(&line))).collect();
        let count = |what| added.iter().filter(|added| **added == what).count();
        assert_eq!(count(AddedLine::Many), 1, "somebody is called once");
        assert_eq!(count(AddedLine::Few) + 1, MOST_BYTES / line.len());
    }
}
