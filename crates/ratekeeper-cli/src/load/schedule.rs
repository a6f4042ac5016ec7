//! How a load is put on, and when each connection sends.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// How a load is put on a target.
#[derive(Clone, Debug)]
pub struct LoadRun {
    /// How many connections there are, over all threads.
    pub connections: NonZeroUsize,
    /// How many requests are in flight on each connection.
    pub depth: NonZeroUsize,
    /// How many threads drive the connections.
    pub threads: NonZeroUsize,
    /// For how long requests are measured.
    pub duration: Duration,
    /// For how long requests are sent before that, unmeasured.
    pub warm_up: Duration,
    /// When requests are sent.
    pub pace: LoadPace,
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPace {
    /// As soon as an answer comes, the next request is sent.
    Closed,
    /// So many requests a second over all connections, however slowly answers come.
    Open(f64),
}

/// When one connection sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// How many requests may be in flight.
    pub(super) depth: usize,
    /// The time between two requests of this connection, or `None` to send as fast as answers come.
    pub(super) every: Option<Duration>,
    /// When the first request is due, if requests have times.
    pub(super) first: Instant,
    /// What was due before this is warm-up, and is not counted.
    pub(super) from: Instant,
    /// Nothing is due from here on.
    pub(super) until: Instant,
}

impl Schedule {
    /// Returns the schedule of one connection. Connections take turns: the first request is the first connection's, the
    /// second the second's.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand connections")]
    pub(super) fn of(run: &LoadRun, began: Instant, number: usize) -> Self {
        let (every, first) = match run.pace {
            LoadPace::Closed => (None, began),
            LoadPace::Open(rate) => {
                let turn = |turns: f64| Duration::from_secs_f64(turns / rate);
                (Some(turn(run.connections.get() as f64)), began + turn(number as f64))
            }
        };
        let from = began + run.warm_up;
        Schedule { depth: run.depth.get(), every, first, from, until: from + run.duration }
    }
}
