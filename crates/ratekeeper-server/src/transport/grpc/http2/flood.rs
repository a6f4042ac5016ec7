//! Frames that cost work and ask for nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, resets, DATA in crumbs. Whoever
//! sends more of them than there can be a reason for is cut off.
//!
//! A connection begins with credit for a thousand such frames, and is given some for every new request and as time
//! passes. A client that asks is generously paid for: a request comes with a handful of them at most (the windows of its
//! answer, a ping that measures). One that only sends them is cut after a thousand, within milliseconds of a flood, and
//! may send four thousand a second for ever.
//!
//! A reset takes back what its request has brought, and one more. Credit may grow by that much for each stream that can
//! be open: the deadlines of all calls may pass together, and again and again, as long as a store is slow.

use std::time::{Duration, Instant};

use super::frame_head::FrameHead;
use super::limits::MAX_STREAMS;

/// The credit of a new connection.
const BEGINNING: i64 = 1_000;
/// Credit for every new request.
const PER_REQUEST: i64 = 12;
/// What a reset costs: a little more than its request brought, so that requests which are all given up at once come to
/// an end too. One that is not given up pays for three that are, whatever came with them.
const RESET: i64 = PER_REQUEST + 1;
/// The most credit that a connection can have: enough for all its open streams to be given up.
const MOST: i64 = BEGINNING + RESET * MAX_STREAMS as i64;
/// The time that earns the credit for one frame.
const PER_FRAME: Duration = Duration::from_micros(250);
/// Bytes of DATA from which on a frame is no crumb: its own bytes bound how many there can be.
const CRUMB: usize = 256;

/// The credit that one client has left for control frames.
#[derive(Debug)]
pub(super) struct FloodGuard {
    credit: i64,
    /// Up to when credit was earned by time.
    paid: Instant,
    /// The last stream that was opened.
    last: u32,
    #[cfg(any(test, fuzzing))]
    has_asked: bool,
}

impl FloodGuard {
    pub(super) fn new() -> Self {
        FloodGuard {
            credit: BEGINNING,
            paid: Instant::now(),
            last: 0,
            #[cfg(any(test, fuzzing))]
            has_asked: false,
        }
    }

    /// Accounts for a frame.
    pub(super) fn frame(&mut self, head: &FrameHead) {
        let earned = match head.kind {
            FrameHead::HEADERS if head.stream > self.last => {
                self.last = head.stream;
                PER_REQUEST
            }
            // A message may come in a few pieces, for which its request has paid.
            FrameHead::DATA if head.len >= CRUMB => 0,
            FrameHead::RST_STREAM => -RESET,
            _ => -1,
        };
        self.credit = (self.credit + earned).min(MOST);
    }

    /// Returns true for a client without credit. The clock is read only where it decides.
    pub(super) fn is_flood(&mut self) -> bool {
        self.credit < 0 && self.is_flood_at(Instant::now())
    }

    /// Returns true if it ever depended on the time whether there is credit.
    #[cfg(any(test, fuzzing))]
    pub(super) fn has_asked_the_clock(&self) -> bool {
        self.has_asked
    }

    fn is_flood_at(&mut self, now: Instant) -> bool {
        #[cfg(any(test, fuzzing))]
        {
            self.has_asked = true;
        }
        let passed = now.saturating_duration_since(self.paid);
        let earned = i64::try_from(passed.as_micros() / PER_FRAME.as_micros()).unwrap_or(MOST);
        self.credit = (self.credit + earned).min(MOST);
        self.paid = now;
        self.credit < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn head(kind: u8, len: usize, stream: u32) -> FrameHead {
        FrameHead { kind, flags: 0, len, stream }
    }

    #[test]
    fn a_client_that_only_sends_control_frames_is_cut_after_a_thousand() {
        for kind in [FrameHead::DATA, 2, 4, PING, WINDOW_UPDATE, 9, 200] {
            let mut guard = FloodGuard::new();
            let began = guard.paid;
            (0..BEGINNING).for_each(|_| guard.frame(&head(kind, 0, 0)));
            assert!(guard.credit == 0, "{kind}");
            guard.frame(&head(kind, 0, 0));
            assert!(guard.credit < 0 && guard.is_flood_at(began));
            assert!(!guard.is_flood_at(began + PER_FRAME), "four thousand a second are none");
        }
    }

    #[test]
    fn a_client_that_asks_may_send_twelve_for_each_request() {
        let mut guard = FloodGuard::new();
        for stream in (1..20_000).step_by(2) {
            guard.frame(&head(FrameHead::HEADERS, 10, stream));
            (0..12).for_each(|_| guard.frame(&head(WINDOW_UPDATE, 4, 0)));
            assert!(guard.credit >= 0);
        }
    }

    #[test]
    fn requests_that_are_all_given_up_come_to_an_end_and_a_few_of_them_do_not() {
        let mut guard = FloodGuard::new();
        let mut count = 0;
        for stream in (1..).step_by(2) {
            guard.frame(&head(FrameHead::HEADERS, 10, stream));
            guard.frame(&head(FrameHead::RST_STREAM, 4, stream));
            if guard.credit < 0 {
                break;
            }
            count += 1;
        }
        assert!((980..=1_000).contains(&count), "{count}");
        let mut guard = FloodGuard::new();
        for stream in (1..20_000).step_by(2) {
            guard.frame(&head(FrameHead::HEADERS, 10, stream));
            if stream % 10 != 1 {
                guard.frame(&head(FrameHead::RST_STREAM, 4, stream));
            }
            assert!(guard.credit >= 0);
        }
    }

    /// A store that is slow, and a client whose calls have a deadline.
    #[test]
    fn deadlines_that_pass_together_are_no_flood() {
        let mut guard = FloodGuard::new();
        let began = guard.paid;
        let mut streams = (1..).step_by(2);
        for round in 0..10_000 {
            let calls: Vec<u32> = streams.by_ref().take(MAX_STREAMS as usize).collect();
            calls.iter().for_each(|stream| guard.frame(&head(FrameHead::HEADERS, 10, *stream)));
            calls.iter().for_each(|stream| guard.frame(&head(FrameHead::DATA, 10, *stream)));
            let now = began + Duration::from_millis(70) * round;
            for stream in &calls {
                guard.frame(&head(FrameHead::RST_STREAM, 4, *stream));
                assert!(guard.credit >= 0 || !guard.is_flood_at(now), "in round {round}");
            }
        }
    }

    #[test]
    fn crumbs_of_a_body_pay_for_nothing() {
        let mut guard = FloodGuard::new();
        guard.frame(&head(FrameHead::HEADERS, 10, 1));
        for _ in 0..BEGINNING / 3 + 5 {
            guard.frame(&head(FrameHead::DATA, 1, 1));
            (0..2).for_each(|_| guard.frame(&head(PING, 8, 0)));
        }
        assert!(guard.credit < 0);

        let mut guard = FloodGuard::new();
        (0..100_000).for_each(|_| guard.frame(&head(FrameHead::DATA, 16_384, 1)));
        assert_eq!(guard.credit, BEGINNING, "a long body is no flood");
    }

    #[test]
    fn fields_after_a_request_are_no_request() {
        let mut guard = FloodGuard::new();
        guard.frame(&head(FrameHead::HEADERS, 10, 1));
        let before = guard.credit;
        guard.frame(&head(FrameHead::HEADERS, 10, 1));
        assert_eq!(guard.credit, before - 1);
    }
}
