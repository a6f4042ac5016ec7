//! Bytes to lines, in big blocks: a line is a slice of the block that it was read in, so that nothing is copied.

use std::io::{self, Read};

/// Bytes that are read at once. A line that does not fit is too long.
const BLOCK: usize = 1 << 20;

/// Reads the lines of a stream.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    source: R,
    block: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether the rest of a line that is too long is being skipped.
    passing_over: bool,
    /// How many bytes were read.
    pub(super) read: u64,
}

/// One line, without its line ending.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TraceLine<'a> {
    Text(&'a [u8]),
    TooLong,
}

impl<R: Read> LineReader<R> {
    pub(super) fn new(source: R) -> Self {
        LineReader { source, block: vec![0; BLOCK].into(), start: 0, end: 0, passing_over: false, read: 0 }
    }

    /// Returns the next line, or `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<TraceLine<'_>>> {
        let mut searched = 0;
        loop {
            let unseen = &self.block[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', unseen) {
                let line = self.start..self.start + searched + at;
                self.start = line.end + 1;
                if std::mem::take(&mut self.passing_over) {
                    return Ok(Some(TraceLine::TooLong));
                }
                return Ok(Some(TraceLine::Text(without_return(&self.block[line]))));
            }
            searched = self.end - self.start;
            if searched == BLOCK {
                (self.start, self.end, searched, self.passing_over) = (0, 0, 0, true);
            }
            if self.fill()? == 0 {
                let line = self.start..self.end;
                self.start = self.end;
                if std::mem::take(&mut self.passing_over) {
                    return Ok(Some(TraceLine::TooLong));
                }
                return Ok((!line.is_empty()).then(|| TraceLine::Text(without_return(&self.block[line]))));
            }
        }
    }

    /// Moves what is left to the front of the block, and reads more.
    #[cold]
    fn fill(&mut self) -> io::Result<usize> {
        self.block.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        loop {
            match self.source.read(&mut self.block[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    self.read += read as u64;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let take = self.1.min(self.0.len()).min(into.len());
            into[..take].copy_from_slice(&self.0[..take]);
            self.0 = &self.0[take..];
            Ok(take)
        }
    }

    fn read(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut lines = LineReader::new(Trickle(text, step));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(match line {
                TraceLine::Text(text) => text.to_vec(),
                TraceLine::TooLong => b"too long".to_vec(),
            });
        }
        all
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn as_one_would_split(text in "[ab\r\n]{0,60}", step in 1usize..9) {
            let mut expected: Vec<_> = text.as_bytes().split(|byte| *byte == b'\n').collect();
            // What follows the last end of a line is a line only if there is something.
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<_> = expected.into_iter().map(|line| without_return(line).to_vec()).collect();
            prop_assert_eq!(read(text.as_bytes(), step), expected);
        }
    }

    #[test]
    fn one_carriage_return_belongs_to_the_end_of_a_line() {
        assert_eq!(read(b"\r\r\n", 1), [b"\r"]);
    }

    #[test]
    fn a_line_that_does_not_fit_is_passed_over() {
        let long = vec![b'x'; 3 * BLOCK];
        let text = [b"a\n", &long[..], b"\nb\n"].concat();
        assert_eq!(read(&text, usize::MAX), [&b"a"[..], b"too long", b"b"]);
        assert_eq!(read(&long, usize::MAX), [b"too long"]);
        let fits = vec![b'x'; BLOCK - 1];
        assert_eq!(read(&[&fits[..], b"\n"].concat(), usize::MAX), [fits]);
    }
}
