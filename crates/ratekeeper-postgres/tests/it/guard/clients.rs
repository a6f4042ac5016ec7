//! Clients of every failure mode on two instances, and what they were answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ratekeeper::keeper::KeeperError;
use ratekeeper::store::{Breaker, BreakerSettings, Guarded};
use ratekeeper::{FailureMode, Keeper, Nanos, Plan, Reason, Registry};
use ratekeeper_postgres::PostgresStore;
use tokio::task::JoinHandle;

/// Every failure mode.
pub(crate) const MODES: [FailureMode; 4] =
    [FailureMode::Open, FailureMode::Closed, FailureMode::Local, FailureMode::Error];

/// Servers that share a limit.
const INSTANCES: usize = 2;

/// Of the plan whose admissions are counted; none comes back during a test.
pub(crate) const QUOTA: u64 = 40;

/// The timeout of the store and of its guard where the server hangs, or never answers.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// What the clients of one mode were answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) decided: u64,
    pub(crate) admitted: u64,
    pub(crate) failed_open: u64,
    pub(crate) failed_closed: u64,
    /// What a local store has taken: it says so only of that.
    pub(crate) taken_locally: u64,
    pub(crate) errors: u64,
    pub(crate) reasons: Vec<String>,
}

impl Seen {
    /// How often the mode has answered instead of the store.
    pub(crate) fn failed(&self, mode: FailureMode) -> u64 {
        match mode {
            FailureMode::Open => self.failed_open,
            FailureMode::Closed => self.failed_closed,
            FailureMode::Local => self.taken_locally,
            _ => self.errors,
        }
    }
}

/// Clients at work.
pub(crate) struct Clients {
    seen: Arc<Mutex<[Seen; 4]>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
    pub(crate) stores: Vec<PostgresStore>,
}

impl Clients {
    /// Starts clients whose calls may take as long as this.
    pub(crate) fn start(url: &str, timeout: Duration) -> Self {
        let (seen, stop) = (Arc::<Mutex<[Seen; 4]>>::default(), Arc::new(AtomicBool::new(false)));
        let (mut tasks, mut stores) = (Vec::new(), Vec::new());
        for _ in 0..INSTANCES {
            let store =
                PostgresStore::builder(url).timeout(timeout).connect_timeout(2 * timeout).build().unwrap();
            stores.push(store.clone());
            let breaker = Breaker::new(BreakerSettings::default().rest(Nanos::from_millis(200)));
            let guarded = Guarded::new(store, breaker).timeout(Some(timeout));
            let plans = MODES.into_iter().flat_map(|mode| {
                let name = format!("{mode:?}").to_lowercase();
                let limited = Plan::parse(&name, &format!("a={QUOTA}/day; b=5000000/h")).unwrap();
                // Its quota lasts: there is always something to be written.
                let lasting = Plan::parse(&format!("{name}-lasting"), "5000000/h").unwrap();
                [limited, lasting].map(|plan| plan.on_store_error(mode))
            });
            let keeper = Keeper::new(guarded, Registry::new(plans));
            for (at, mode) in MODES.into_iter().enumerate() {
                tasks.push(tokio::spawn(ask_on(
                    keeper.clone(),
                    at,
                    mode,
                    Arc::clone(&seen),
                    Arc::clone(&stop),
                )));
            }
        }
        Clients { seen, stop, tasks, stores }
    }

    pub(crate) fn seen(&self) -> [Seen; 4] {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until the mode has answered some, or the store has, since `before`.
    pub(crate) async fn until(
        &self,
        what: &str,
        before: &[Seen; 4],
        is_true: impl Fn(FailureMode, &Seen, &Seen) -> bool,
    ) {
        let deadline = Instant::now() + test_support::wait::PATIENCE;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        loop {
            let now = self.seen();
            if MODES
                .iter()
                .zip(before.iter().zip(&now))
                .all(|(mode, (before, now))| is_true(*mode, before, now))
            {
                return;
            }
            assert!(Instant::now() < deadline, "never: {what}: {now:?}");
            tick.tick().await;
        }
    }

    /// How many statements all instances have had decided.
    pub(crate) fn decisions(&self) -> u64 {
        self.stores.iter().map(|store| store.counts().decisions).sum()
    }

    /// Stops, and makes sure that no more was admitted than the quota, so many times.
    pub(crate) async fn stop(self, what: &str, lives: u64) -> [Seen; 4] {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.expect("a client that lives");
        }
        let all = self.seen.lock().unwrap().clone();
        for (mode, seen) in MODES.iter().zip(&all) {
            // In memory each instance has a quota for itself.
            let in_memory = if *mode == FailureMode::Local { INSTANCES as u64 } else { 0 };
            let most = QUOTA * (lives + in_memory);
            assert!(seen.admitted <= most, "{what}, {mode:?}: more than {most}: {seen:?}");
        }
        all
    }
}

async fn ask_on(
    keeper: Keeper,
    at: usize,
    mode: FailureMode,
    seen: Arc<Mutex<[Seen; 4]>>,
    stop: Arc<AtomicBool>,
) {
    // A pace: what is to be seen is what is answered, not how fast a loop can turn.
    let mut pace = tokio::time::interval(Duration::from_millis(8));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let limited = format!("{mode:?}").to_lowercase();
    let lasting = format!("{limited}-lasting");
    for plan in [&limited, &lasting].into_iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        pace.tick().await;
        let answer = keeper.acquire("shared", plan.as_str(), 1).await;
        let seen = &mut seen.lock().unwrap()[at];
        match &answer {
            Ok(ruling) if ruling.reason == Reason::FailOpen => seen.failed_open += 1,
            Ok(ruling) if ruling.reason == Reason::FailClosed => seen.failed_closed += 1,
            Ok(ruling) => {
                // What the store has taken has an instant of its clock.
                let is_local = ruling.charged().is_some() && ruling.charged_at().is_none();
                seen.taken_locally += u64::from(is_local);
                seen.decided += u64::from(!is_local);
                seen.admitted += u64::from(ruling.allowed && *plan == limited);
            }
            Err(KeeperError::Store(error)) => {
                assert!(error.is_transient(), "an outage is one: {error}");
                seen.errors += 1;
                let reason = error.reason().to_owned();
                if !seen.reasons.contains(&reason) {
                    seen.reasons.push(reason);
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}
