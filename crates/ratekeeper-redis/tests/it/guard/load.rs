//! Clients that ask all the time, and a count of what they were answered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::store::Breaker;
use ratekeeper::{Cost, FailureMode, Keeper, Key, Plan, Reason, Registry};
use ratekeeper_redis::RedisStore;
use tokio::task::JoinHandle;

use test_support::wait;

/// What was sent, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct AnswerCounts {
    sent: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) failed_open: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// What the errors said, each once.
    said: Mutex<BTreeSet<String>>,
}

impl AnswerCounts {
    /// Answers by the server itself.
    pub(crate) fn informed(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst) + self.denied.load(Ordering::SeqCst)
    }

    /// Answers in its stead.
    pub(crate) fn failed(&self) -> u64 {
        self.failed_open.load(Ordering::SeqCst) + self.errors.load(Ordering::SeqCst)
    }
}

/// The breaker of a store on one server.
pub(crate) fn only_breaker(store: &RedisStore) -> Arc<Breaker> {
    let mut breakers = store.breakers();
    assert_eq!(breakers.len(), 1, "{breakers:?}");
    breakers.remove(0)
}

/// Clients at work: half of them under a plan that fails open, half under one that hands over the error.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) counts: Arc<AnswerCounts>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

/// A plan that fails open and one that errs, by these rules.
pub(crate) fn plans(rules: &str) -> Registry {
    let plan = |name, mode| Plan::parse(name, rules).expect("rules").on_store_error(mode);
    Registry::new([plan("open", FailureMode::Open), plan("error", FailureMode::Error)])
}

impl Load {
    /// Clients that ask for one key, through each of these stores.
    pub(crate) fn start(stores: &[RedisStore], rules: &str, clients: usize) -> Self {
        let (counts, stop) = (Arc::new(AnswerCounts::default()), Arc::new(AtomicBool::new(false)));
        let keepers: Vec<Keeper> =
            stores.iter().map(|store| Keeper::new(store.clone(), plans(rules))).collect();
        let clients = (0..clients).map(|number| {
            let keeper = keepers[number % keepers.len()].clone();
            let plan = if (number / keepers.len()).is_multiple_of(2) { "open" } else { "error" };
            tokio::spawn(ask_on(keeper, plan, Arc::clone(&counts), Arc::clone(&stop)))
        });
        Load { clients: clients.collect(), counts, stop }
    }

    /// Waits for so many more answers of a sort.
    pub(crate) async fn more(&self, what: &str, count: u64, of: impl Fn(&AnswerCounts) -> u64) {
        let start = of(&self.counts);
        wait::until_async(what, || of(&self.counts) >= start + count).await;
    }

    /// The server is back: so is service, soon.
    pub(crate) async fn is_back(&self, what: &str) {
        let start = self.counts.informed();
        wait::until_async(what, || self.counts.informed() > start).await;
    }

    /// Stops, and makes sure that every request was answered exactly once.
    pub(crate) async fn stop(self) -> Arc<AnswerCounts> {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.await.expect("a client that lives");
        }
        let sent = self.counts.sent.load(Ordering::SeqCst);
        assert_eq!(self.counts.informed() + self.counts.failed(), sent, "{:?}", self.counts);
        self.counts
    }
}

async fn ask_on(keeper: Keeper, plan: &str, counts: Arc<AnswerCounts>, stop: Arc<AtomicBool>) {
    // A pace: what is to be seen is what is answered, not how fast a loop can turn.
    let mut pace = tokio::time::interval(Duration::from_millis(4));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let key = Key::new("caller").expect("a key");
    while !stop.load(Ordering::SeqCst) {
        pace.tick().await;
        counts.sent.fetch_add(1, Ordering::SeqCst);
        let counter = match keeper.acquire(key, plan, Cost::ONE).await {
            Ok(ruling) if ruling.reason == Reason::FailOpen => &counts.failed_open,
            Ok(ruling) if ruling.allowed => &counts.admitted,
            Ok(_) => &counts.denied,
            Err(KeeperError::Store(error)) => {
                assert!(error.is_transient(), "an outage is one: {error}");
                counts.said.lock().expect("no panic").insert(error.to_string());
                &counts.errors
            }
            Err(error) => panic!("{error}"),
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}
