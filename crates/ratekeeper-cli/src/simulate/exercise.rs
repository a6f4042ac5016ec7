//! Any lines as a trace, for tests and for fuzzing.

use std::io::{self, Read};

use ratekeeper::Timestamp;
use ratekeeper::testkit::fuzz::check_message;

use super::lines::{LineReader, TraceLine};
use super::policy::SimulatedPolicy;
use super::progress::ReplayProgress;
use super::replay::Replay;
use super::replay_error::ReplayError;
use super::trace::{KeyField, TraceFormat, TraceParser, exercise_line};

/// Reads bytes as a trace: the first byte tells in which format, the next four in which pieces they come.
///
/// # Panics
///
/// See [`fuzz::trace`](crate::fuzz::trace).
pub(crate) fn exercise_trace(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let (lens, trace) = bytes.split_at(bytes.len().min(4));
    let mut lines = LineReader::new(trace);
    while let Ok(Some(line)) = lines.next() {
        if let TraceLine::Text(text) = line {
            exercise_line(text);
        }
    }
    let whole = replay(*flags, trace);
    let cut = replay(*flags, Pieces { bytes: trace, lens, number: 0 });
    assert_eq!(whole, cut, "what comes of a trace does not depend on how it is read");
}

/// Returns what came of a trace, in words.
fn replay(flags: u8, trace: impl Read) -> String {
    let by = [KeyField::Client, KeyField::User, KeyField::Path, KeyField::All][usize::from(flags & 3)];
    let parser = match flags >> 2 & 7 {
        0 => TraceParser::new(TraceFormat::Plain, by),
        1 => TraceParser::new(TraceFormat::Common, by),
        2 => TraceParser::new(TraceFormat::Combined, by),
        3 => TraceParser::new(TraceFormat::Recorded, by),
        _ => TraceParser::finding_out(by),
    };
    let now = Timestamp::from_secs(1_700_000_000);
    let mut replay = Replay { parser, strict: flags & 0x80 != 0, now, checks_units: flags & 0x40 != 0 };
    let policies = ["5/s burst 10", "60/m; 1000 tokens/m", "3/h log"].map(SimulatedPolicy::parse);
    let mut policies: Vec<SimulatedPolicy> = policies.into_iter().filter_map(Result::ok).collect();
    assert_eq!(policies.len(), 3);
    let (mut decided, mut allowed) = (0_u64, 0_u64);
    let replayed = replay.run_lines(
        LineReader::new(trace),
        ReplayProgress::new(None),
        &mut policies,
        |_, _, decision| {
            assert!(decision.remaining <= decision.limit, "{decision:?}");
            decided += 1;
            allowed += u64::from(decision.allowed);
            Ok(())
        },
    );
    let told = match replayed {
        Ok(overview) => {
            let of_all: u64 = policies.iter().map(|policy| policy.admitted() + policy.denied()).sum();
            assert_eq!(of_all, decided, "every decision is counted");
            format!("{} {:?}", overview.requests, overview.skipped)
        }
        Err(failure) => {
            let error = ReplayError { trace: "a.log".to_owned(), failure }.to_string();
            check_message(&error);
            error
        }
    };
    format!("{told} {decided} {allowed}")
}

/// Hands out pieces, whose lengths are told again and again.
struct Pieces<'a> {
    bytes: &'a [u8],
    lens: &'a [u8],
    number: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.lens.get(self.number % self.lens.len().max(1)).map_or(1, |len| usize::from(*len) + 1);
        self.number += 1;
        let (piece, rest) = self.bytes.split_at(len.min(self.bytes.len()).min(into.len()));
        into[..piece.len()].copy_from_slice(piece);
        self.bytes = rest;
        Ok(piece.len())
    }
}
