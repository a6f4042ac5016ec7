//! The thread that workers and housekeeper work on, and the way to them.
//!
//! A thread of its own, with a runtime of its own: whoever asks may have any runtime or none, and connections do not end with
//! it. All ends when the last clone of the store is dropped.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ratekeeper::port::Clock;
use ratekeeper::{StoreError, StoreErrorKind};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::call::{Call, unasked};
use crate::counters::Counters;
use crate::housekeeper::{Housekeeper, Wish};
use crate::seen::SeenRows;
use crate::session::SessionSettings;
use crate::worker::Worker;

/// Calls that may wait for one worker.
const MOST_WAITING: usize = 4_096;

/// Rows that are remembered, and their bytes.
const SEEN_ROWS: usize = 131_072;
const SEEN_BYTES: usize = 64 << 20;

/// What the housekeeper may have waiting for it.
const MOST_WISHES: usize = 16;

/// What a crew is started with.
#[derive(Debug)]
pub(crate) struct CrewSettings {
    pub(crate) session: SessionSettings,
    pub(crate) workers: usize,
    pub(crate) sweep_every: Duration,
    pub(crate) given: Option<Arc<dyn Clock>>,
}

/// The ways to the workers.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<mpsc::Sender<Call>>,
    wishes: mpsc::Sender<Wish>,
    hasher: RandomState,
    pub(crate) counters: Arc<Counters>,
}

impl Crew {
    /// Starts the thread. Nothing is sent until somebody asks.
    pub(crate) fn start(settings: CrewSettings) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| {
            StoreError::new(StoreErrorKind::Other, format!("cannot start the store's thread: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let CrewSettings { session, workers: count, sweep_every, given } = settings;
        let (session, counters) = (Arc::new(session), Arc::new(Counters::default()));
        let seen = Arc::new(Mutex::new(SeenRows::new(SEEN_ROWS, SEEN_BYTES)));
        let mut tasks = JoinSet::new();
        let mut workers = Vec::with_capacity(count);
        for _ in 0..count {
            let (sender, calls) = mpsc::channel(MOST_WAITING);
            let (settings, counters) = (Arc::clone(&session), Arc::clone(&counters));
            let worker = Worker::new(calls, settings, counters, Arc::clone(&seen), given.clone());
            tasks.spawn_on(worker.run(), runtime.handle());
            workers.push(sender);
        }
        let (wishes, receiver) = mpsc::channel(MOST_WISHES);
        let housekeeper = Housekeeper {
            wishes: receiver,
            settings: session,
            counters: Arc::clone(&counters),
            interval: sweep_every,
            given,
        };
        tasks.spawn_on(housekeeper.run(), runtime.handle());
        let work = move || {
            runtime.block_on(async move {
                while let Some(ended) = tasks.join_next().await {
                    // Its calls are answered with an error from now on.
                    if let Err(error) = ended {
                        tracing::error!(%error, "postgres: a worker has panicked; start the program anew");
                    }
                }
            });
        };
        std::thread::Builder::new().name("postgres".into()).spawn(work).map_err(failed)?;
        Ok(Crew { workers, wishes, hasher: RandomState::new(), counters })
    }

    /// Hands a call to the worker of its first key. Calls of one worker are decided in the order in which they came.
    ///
    /// # Errors
    ///
    /// If too many wait there already.
    pub(crate) fn send(&self, call: Call) -> Result<(), StoreError> {
        let first = call.keys.first().map_or(&[][..], |key| &**key);
        // A remainder is less than the number of workers.
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of a small number")]
        let index = (self.hasher.hash_one(first) % self.workers.len().max(1) as u64) as usize;
        let worker = self.workers.get(index).ok_or_else(unasked)?;
        worker.try_send(call).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                let message = format!(
                    "{MOST_WAITING} calls wait for one connection: the server is too slow, or there are too few connections"
                );
                StoreError::new(StoreErrorKind::Unavailable, message).because("busy")
            }
            mpsc::error::TrySendError::Closed(_) => unasked(),
        })
    }

    /// Has the housekeeper forget keys by how they start.
    ///
    /// # Errors
    ///
    /// What keeps the server from it.
    pub(crate) async fn forget(&self, prefix: &[u8]) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let wish = Wish::Forget { prefix: prefix.to_vec(), reply };
        self.wishes.send(wish).await.map_err(|_| unasked())?;
        answer.await.unwrap_or_else(|_| Err(unasked()))
    }

    /// Has the housekeeper connect.
    ///
    /// # Errors
    ///
    /// What keeps the server from serving.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.wishes.send(Wish::Check { reply }).await.map_err(|_| unasked())?;
        answer.await.unwrap_or_else(|_| Err(unasked()))
    }
}
