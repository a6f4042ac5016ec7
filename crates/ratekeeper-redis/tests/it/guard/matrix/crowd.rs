//! Clients of every failure mode, and what they were answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Cost, FailureMode, Keeper, Key, Plan, Reason, Registry};
use ratekeeper_redis::RedisStore;
use tokio::task::JoinHandle;

use super::MODES;
use super::scene::Keys;

/// Servers that share a limit.
const INSTANCES: usize = 2;

/// Of the plan whose admissions are counted; none comes back during a test.
const QUOTA: u64 = 40;

/// What plans say: the first for a mode is never used up, so that every request has something to write; the second is.
const PLANS: [(&str, &str); 2] = [("busy", "1000000/day"), ("counted", "40/day")];

/// How the plans are edited.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    None,
    RuleAdded,
    RulesSwapped,
    OtherAlgorithm,
}

/// What the clients of one mode were answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    sent: u64,
    /// By each instance: by its store, or by what it has in memory.
    decided: [u64; INSTANCES],
    /// Of the plan that is counted.
    admitted: u64,
    failed_open: u64,
    failed_closed: u64,
    errors: u64,
    /// What the last error said.
    said: String,
}

impl Seen {
    /// By the slower instance.
    pub(super) fn decided(&self) -> u64 {
        *self.decided.iter().min().unwrap_or(&0)
    }

    pub(super) fn is_back(&self) -> bool {
        self.decided() > 0
    }

    pub(super) fn answered(&self) -> u64 {
        self.decided.iter().sum::<u64>() + self.failed()
    }

    fn failed(&self) -> u64 {
        self.failed_open + self.failed_closed + self.errors
    }

    /// What was answered in the way of a mode when the store fails. A local store's answers look like the store's.
    pub(super) fn by(&self, mode: FailureMode) -> u64 {
        match mode {
            FailureMode::Open => self.failed_open,
            FailureMode::Closed => self.failed_closed,
            FailureMode::Local => self.decided(),
            _ => self.errors,
        }
    }

    fn since(&self, before: &Seen) -> Seen {
        Seen {
            sent: self.sent - before.sent,
            decided: std::array::from_fn(|at| self.decided[at] - before.decided[at]),
            admitted: self.admitted - before.admitted,
            failed_open: self.failed_open - before.failed_open,
            failed_closed: self.failed_closed - before.failed_closed,
            errors: self.errors - before.errors,
            said: self.said.clone(),
        }
    }
}

/// By mode, in their order; at last those whose key lives elsewhere.
pub(super) type AllSeen = [Seen; 5];

const ELSEWHERE: usize = 4;

/// Clients at work.
pub(super) struct Crowd {
    seen: Arc<Mutex<AllSeen>>,
    stop: Arc<AtomicBool>,
    registries: Vec<Arc<Registry>>,
    clients: Vec<JoinHandle<()>>,
    has_elsewhere: bool,
}

impl Crowd {
    pub(super) fn start(url: &str, keys: &Keys) -> Self {
        let (seen, stop) = (Arc::<Mutex<AllSeen>>::default(), Arc::new(AtomicBool::new(false)));
        let (mut registries, mut clients) = (Vec::new(), Vec::new());
        for instance in 0..INSTANCES {
            let registry = Arc::new(Registry::new(plans(Edit::None)));
            registries.push(Arc::clone(&registry));
            // No answer may be lost for want of time: the machine may be busy.
            let store = RedisStore::builder(url)
                .without_denial_cache()
                .command_timeout(Duration::from_secs(10))
                .connect_timeout(Duration::from_secs(10));
            let keeper = Keeper::from_arcs(Arc::new(store.build().unwrap()), registry);
            let clients_of = (0..MODES.len()).map(|at| (at, at, keys.hit.clone()));
            let elsewhere = keys.spared.iter().map(|key| (ELSEWHERE, MODES.len() - 1, key.clone()));
            for (group, mode, key) in clients_of.chain(elsewhere) {
                let client = Client { group, mode: MODES[mode], key, instance, keeper: keeper.clone() };
                clients.push(tokio::spawn(client.ask_on(Arc::clone(&seen), Arc::clone(&stop))));
            }
        }
        Crowd { seen, stop, registries, clients, has_elsewhere: keys.spared.is_some() }
    }

    pub(super) fn edit(&self, edit: Edit) {
        for registry in &self.registries {
            registry.replace(plans(edit));
        }
    }

    pub(super) fn seen(&self) -> AllSeen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until it is true of each mode.
    pub(super) async fn each(
        &self,
        when: &str,
        what: &str,
        patience: Duration,
        is_true: impl Fn(&Seen) -> bool,
    ) {
        self.each_since(&AllSeen::default(), when, what, patience, |_, seen| is_true(seen)).await;
    }

    /// The same of what was answered since, and of those elsewhere that they are decided on.
    pub(super) async fn each_since(
        &self,
        before: &AllSeen,
        when: &str,
        what: &str,
        patience: Duration,
        is_true: impl Fn(FailureMode, &Seen) -> bool,
    ) {
        let deadline = tokio::time::Instant::now() + patience;
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        loop {
            let now = self.seen();
            let since: Vec<Seen> = now.iter().zip(before).map(|(now, before)| now.since(before)).collect();
            let is_elsewhere_well = !self.has_elsewhere || since[ELSEWHERE].is_back();
            if is_elsewhere_well && MODES.iter().zip(&since).all(|(mode, seen)| is_true(*mode, seen)) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "{what}, {when}: not within {patience:?}: {since:?}"
            );
            tick.tick().await;
        }
    }

    pub(super) fn assert_none_failed(&self, what: &str) {
        for (group, seen) in self.seen().iter().enumerate() {
            assert_eq!(seen.failed(), 0, "{what}, group {group}: {seen:?}");
        }
    }

    /// Stops, and makes sure of what holds for every cell.
    pub(super) async fn stop(self, what: &str, lives: u64) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.await.expect("a client that lives");
        }
        let all = self.seen.lock().unwrap().clone();
        for (group, seen) in all.iter().enumerate() {
            assert_eq!(seen.answered(), seen.sent, "{what}, group {group}: {seen:?}");
            // In memory each instance has a quota for itself.
            let in_memory = if MODES.get(group) == Some(&FailureMode::Local) { INSTANCES as u64 } else { 0 };
            let most = QUOTA * (lives + in_memory);
            assert!(seen.admitted <= most, "{what}, group {group}: more than {most}: {seen:?}");
            // A mode fails in its own way, and in no other.
            let own_way = match MODES.get(group) {
                Some(FailureMode::Local) | None => 0,
                Some(mode) => seen.by(*mode),
            };
            assert_eq!(seen.failed(), own_way, "{what}, group {group}: {seen:?}");
        }
    }
}

fn plans(edit: Edit) -> Vec<Plan> {
    let edited = |quota: &str| match edit {
        Edit::None => format!("a={quota}; b=5000000/h"),
        Edit::RuleAdded => format!("a={quota}; b=5000000/h; c=900000/m"),
        Edit::RulesSwapped => format!("b=5000000/h; a={quota}"),
        Edit::OtherAlgorithm => format!("a={quota} fixed; b=5000000/h"),
    };
    let plan = |mode: FailureMode, (name, quota): (&str, &str)| {
        Plan::parse(&name_of(mode, name), &edited(quota)).unwrap().on_store_error(mode)
    };
    MODES.iter().flat_map(|mode| PLANS.map(|of| plan(*mode, of))).collect()
}

fn name_of(mode: FailureMode, plan: &str) -> String {
    format!("{mode:?}-{plan}").to_lowercase()
}

struct Client {
    group: usize,
    mode: FailureMode,
    key: String,
    instance: usize,
    keeper: Keeper,
}

impl Client {
    async fn ask_on(self, seen: Arc<Mutex<AllSeen>>, stop: Arc<AtomicBool>) {
        // A pace: what is to be seen is what is answered, not how fast a loop can turn.
        let mut pace = tokio::time::interval(Duration::from_millis(16));
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.load(Ordering::SeqCst) {
            pace.tick().await;
            for (plan, _) in PLANS {
                self.ask(plan, &seen).await;
            }
        }
    }

    async fn ask(&self, plan: &str, seen: &Mutex<AllSeen>) {
        let note = |change: &dyn Fn(&mut Seen)| change(&mut seen.lock().unwrap()[self.group]);
        note(&|seen| seen.sent += 1);
        let key = Key::new(&self.key).unwrap();
        let name = name_of(self.mode, plan);
        let answer = self.keeper.acquire(key, name.as_str(), Cost::ONE).await;
        note(&|seen| match &answer {
            Ok(ruling) if ruling.reason == Reason::FailOpen => seen.failed_open += 1,
            Ok(ruling) if ruling.reason == Reason::FailClosed => seen.failed_closed += 1,
            Ok(ruling) => {
                seen.decided[self.instance] += 1;
                seen.admitted += u64::from(ruling.allowed && plan == "counted");
            }
            Err(KeeperError::Store(error)) => {
                assert!(error.is_transient(), "an outage is one: {error}");
                seen.errors += 1;
                seen.said = error.to_string();
            }
            Err(error) => panic!("{error}"),
        });
    }
}
