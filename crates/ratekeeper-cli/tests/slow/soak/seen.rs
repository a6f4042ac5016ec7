//! What is seen from outside: of requests, of holds, of sums and of processes.

use crate::soak::timeline::{Nanos, Timeline};
use test_support::bound::Admission;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The store decided it.
    Decided,
    /// The failure mode did, or the server answered with an error.
    Failed(String),
    /// There was no answer: the connection was lost, or none could be made, or it took too long.
    Lost(String),
    /// It was refused, though it came when it had been told to.
    Broken(String),
}

/// One request of a good client.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) instance: usize,
    pub(crate) client: usize,
    pub(crate) sent: Nanos,
    pub(crate) answered: Nanos,
    pub(crate) outcome: Outcome,
}

/// A hold, as its client knows it: live for certain from the answer to when it was ended, or its lease was over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldSpan {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

/// What clients and the server have counted since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Answers that clients had before the server was asked.
    pub(crate) answered: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// Requests that clients had sent after it had answered.
    pub(crate) asked: u64,
    /// What `/metrics` says: allowed, denied, errors.
    pub(crate) metrics: [u64; 3],
    /// What `/v1/stats` said before that: it is as old as a second.
    pub(crate) stats: [u64; 3],
    /// What `/metrics` said some seconds earlier: by now the other page must have it.
    pub(crate) stats_at_least: [u64; 3],
    /// Whether nobody asks any more, and the server had time: both pages say the same.
    pub(crate) is_final: bool,
}

/// What was seen of one server from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) instance: usize,
    /// How old the process is.
    pub(crate) age: Nanos,
    pub(crate) memory: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    /// Connections of clients, good and bad.
    pub(crate) clients: u64,
    /// Whether it ended without being killed.
    pub(crate) has_died: bool,
    /// Whether it said that something panicked.
    pub(crate) has_panicked: bool,
    pub(crate) sums: Option<Sums>,
    /// How old the file of state was when the server was killed, and how old it may have been.
    pub(crate) snapshot_age: Option<(Nanos, Nanos)>,
}

/// What was seen until now; what was new in this second is apart.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Nanos,
    pub(crate) timeline: &'a Timeline,
    /// Of every law, what was admitted within the horizon, and when somebody asked and was refused.
    pub(crate) admitted: &'a [Vec<Admission>],
    pub(crate) refused: &'a [Vec<(Nanos, Nanos)>],
    pub(crate) holds: &'a [HeldSpan],
    /// New requests.
    pub(crate) samples: &'a [Sample],
    /// When each client had its last decision; none of clients whose server is not there.
    pub(crate) last_decided: &'a [(usize, Nanos)],
    pub(crate) readings: &'a [Reading],
}
