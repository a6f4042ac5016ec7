//! All that the console shows, shared by the thread that reads and the transport that is asked.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::history::HistoryQuery;
use super::sampled::{SampleTime, SampledState};
use super::stats::{Stats, StatsAbout};
use super::streams::{StatsStream, StatsStreams};
use crate::engine::Engine;
use crate::secret::TokenPass;
use crate::watch::{EventKind, EventLevel, epoch_millis};

/// For how long after a question somebody counts as watching, in milliseconds.
const WATCHED: u64 = 5_000;
/// How old a count of live holds may be to be told: not quite the second in which the next message is due.
const COUNTED_LATELY: Duration = Duration::from_millis(900);
/// So many keys are looked at at a time: a remote store is asked many questions for each.
const LOOKS_AT_ONCE: usize = 4;

/// What the server calls itself, and how it was started.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsoleAbout {
    /// The name of the server.
    pub(crate) name: String,
    /// How many event loops it has.
    pub(crate) loops: usize,
}

/// What is known of a server, for those who look.
#[derive(Debug)]
pub(crate) struct Console {
    engine: Arc<Engine>,
    about: ConsoleAbout,
    started: u64,
    state: Mutex<SampledState>,
    streams: StatsStreams,
    /// When somebody last asked, in milliseconds since the epoch.
    asked_at: AtomicU64,
    /// Whose new keys were refused at the last reading.
    refusing: Mutex<Vec<&'static str>>,
    /// When the certificate expires that was in use at the last reading; 0 for none.
    certificate_expiry: AtomicI64,
    /// When live holds were last counted, and how many there were.
    held: Mutex<Option<(Instant, usize)>>,
    /// Keys that are looked at at a time.
    looks: Semaphore,
    /// Limits that are tried at a time.
    trials: Arc<Semaphore>,
}

impl Console {
    /// Returns the console of an engine. Requests are recorded from now on.
    pub(crate) fn new(engine: Arc<Engine>, about: ConsoleAbout) -> Arc<Self> {
        engine.metrics().record_requests();
        let now = SampleTime::now();
        let console = Console {
            engine,
            about,
            started: now.wall,
            state: Mutex::default(),
            streams: StatsStreams::default(),
            asked_at: AtomicU64::new(0),
            refusing: Mutex::default(),
            certificate_expiry: AtomicI64::new(0),
            held: Mutex::default(),
            looks: Semaphore::new(LOOKS_AT_ONCE),
            trials: Arc::new(Semaphore::new(1)),
        };
        // What is counted from now on is a difference.
        console.lock().read(&console.engine, false, now);
        Arc::new(console)
    }

    /// Reads the counters, once a second, and tells those who watch.
    pub(super) fn read(&self) {
        self.read_at(SampleTime::now());
    }

    fn read_at(&self, now: SampleTime) {
        self.engine.metrics().tend_recorded();
        self.note_refusals();
        self.note_certificate();
        // Only for those who watch: all keys on the lists of all event loops are copied, and denials wait for that.
        let follows_top = self.engine.metrics().most_denied() > 0 && self.is_watched();
        // Before the lock, which others wait for.
        let is_streamed = self.streams.open_count() > 0;
        let holds = is_streamed.then(|| self.holds()).flatten();
        let mut state = self.lock();
        state.read(&self.engine, follows_top, now);
        if !is_streamed {
            return;
        }
        let message = |is_admin| stream_message(&self.render(&state, is_admin, holds));
        let (plain, admin) = (message(false), message(true));
        drop(state);
        self.streams.send(plain, admin);
    }

    fn note_refusals(&self) {
        if self.engine.memory().is_none() {
            return;
        }
        let now = self.engine.refusing_new_keys();
        let mut before = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        if *before == now {
            return;
        }
        let events = self.engine.events();
        match &now[..] {
            [] => events.note(EventKind::Full, EventLevel::Info, "the store takes new keys again"),
            whose => {
                let whose = whose.join(" and ");
                let text = format!(
                    "the store is full: new keys are refused (of: {whose}); raise --max-keys or --max-bytes"
                );
                events.note(EventKind::Full, EventLevel::Warn, text);
            }
        }
        *before = now;
    }

    fn note_certificate(&self) {
        let now = self.engine.metrics().certificate_expiry().unwrap_or(0);
        let before = self.certificate_expiry.swap(now, Ordering::Relaxed);
        if before != 0 && before != now {
            let text = "the TLS certificate was exchanged";
            self.engine.events().note(EventKind::Certificate, EventLevel::Info, text);
        }
    }

    /// Returns true if somebody looks at present, or did a moment ago.
    pub(crate) fn is_watched(&self) -> bool {
        let asked = self.asked_at.load(Ordering::Relaxed);
        self.streams.open_count() > 0 || epoch_millis().saturating_sub(asked) < WATCHED
    }

    /// Notes that somebody looks: a remote store is probed for them.
    pub(crate) fn note_asked(&self) {
        self.asked_at.store(epoch_millis(), Ordering::Relaxed);
    }

    /// Returns what the server does at present, as JSON. Keys are told to an administrator only.
    pub(crate) fn stats(&self, is_admin: bool) -> String {
        let holds = self.holds();
        let mut state = self.lock();
        // The first who looks sees who was denied most so far; how often in each second is known from then on.
        if is_admin && state.top.is_empty() && self.engine.metrics().most_denied() > 0 {
            state.top.look(self.engine.metrics().top_denied());
        }
        self.render(&state, is_admin, holds)
    }

    /// Returns how many holds are live in the store in memory. To count them looks at each, so that is done once a second at
    /// most, whoever asks, and for those who watch only.
    fn holds(&self) -> Option<usize> {
        let store = self.engine.memory()?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held.filter(|(at, _)| at.elapsed() < COUNTED_LATELY);
        let (at, count) = known.unwrap_or_else(|| (Instant::now(), store.live_hold_count()));
        *held = Some((at, count));
        Some(count)
    }

    /// Returns the answer to a query of the history, as JSON; an error is the name of a plan that has no history of its own.
    pub(crate) fn history(&self, query: &HistoryQuery) -> Result<String, String> {
        // Copied first: the next reading does not wait until it is written.
        let copy = self.lock().history(query)?;
        Ok(copy.render(query))
    }

    /// Waits until few enough keys are looked at; none if the server is gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line.
    pub(crate) async fn look_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.looks.acquire().await.ok()
    }

    /// Opens a stream of what the server does; none if there are as many as there may be.
    pub(crate) fn stream(&self, is_admin: bool, pass: TokenPass, first: &str) -> Option<StatsStream> {
        let first = format!("retry: 2000\n\nevent: stats\ndata: {first}\n\n");
        self.streams.open(is_admin, pass, Bytes::from(first))
    }

    /// Waits until no other limit is tried; none if the server is gone. What is returned belongs to the work, and not to whoever
    /// waits for it: the work may go on for longer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in line.
    pub(crate) async fn trial_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.trials).acquire_owned().await.ok()
    }

    /// Returns true if there is no place for another stream, of an administrator or of somebody else.
    pub(crate) fn is_crowded(&self, is_admin: bool) -> bool {
        self.streams.is_crowded(is_admin)
    }

    fn render(&self, state: &SampledState, is_admin: bool, holds: Option<usize>) -> String {
        let about = StatsAbout {
            name: &self.about.name,
            loops: self.about.loops,
            started: self.started,
            streams: self.streams.open_count(),
            holds,
        };
        Stats::of(&self.engine, state, about, is_admin).to_json()
    }

    fn lock(&self) -> MutexGuard<'_, SampledState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns one message of server-sent events. JSON on one line has no line ends.
fn stream_message(json: &str) -> Bytes {
    Bytes::from(format!("event: stats\ndata: {json}\n\n"))
}

#[cfg(test)]
mod tests {
    use ratekeeper::{Key, MemoryStore, Plan, Registry};
    use serde_json::{Value, json};

    use super::*;
    use crate::request::RequestLimits;
    use crate::secret::LiveTokens;

    fn console() -> Arc<Console> {
        let plans = Registry::new([Plan::with_shadow("free", ["2/h"], ["1/h"]).unwrap()]);
        let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
        Console::new(Arc::new(engine), ConsoleAbout { name: "api-1".to_owned(), loops: 1 })
    }

    fn told(console: &Console) -> Value {
        serde_json::from_str(&console.stats(false)).unwrap()
    }

    #[test]
    fn what_is_decided_is_told_after_the_next_reading() {
        let console = console();
        let began = SampleTime::now();
        let read = |second: u64| {
            let since = second * 1_000;
            console.read_at(SampleTime { wall: began.wall + since, steady: began.steady + since });
        };
        read(1);
        for _ in 0..3 {
            console.engine.keeper().acquire("k", "free", 1).now().unwrap().unwrap();
        }
        read(2);
        let stats = told(&console);
        let counts = json!({ "allowed": 2, "denied": 1, "would_deny": 1 });
        assert_eq!(stats["plans"][0]["plan"], "free");
        assert_eq!((&stats["plans"][0]["second"], &stats["plans"][0]["total"]), (&counts, &counts));
        assert_eq!((&stats["plans"][0]["rules"], &stats["other_plans"]), (&json!(2), &Value::Null));
        assert_eq!((&stats["second"]["would_deny"], &stats["store"]["kind"]), (&json!(1), &json!("memory")));
        assert_eq!((&stats["rights"]["admin"], &stats["top_denied"]), (&json!(false), &Value::Null));
        read(3);
        let stats = told(&console);
        assert_eq!(stats["plans"][0]["second"]["allowed"], 0);
        assert_eq!(stats["plans"][0]["minute"]["allowed"], 2);
    }

    #[test]
    fn keys_are_followed_while_somebody_looks() {
        let plans = Registry::new([Plan::parse("free", "2/h").unwrap()]);
        let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
        let engine = Arc::new(engine.top_denied(10));
        let console = Console::new(Arc::clone(&engine), ConsoleAbout::default());
        let counters = engine.metrics().transport("http");
        let began = SampleTime::now();
        let read = |second: u64| {
            let since = second * 1_000;
            console.read_at(SampleTime { wall: began.wall + since, steady: began.steady + since });
        };
        let deny = |times| {
            for _ in 0..times {
                let ruling = engine.keeper().acquire("k", "free", 3).now().unwrap().unwrap();
                counters.took(Key::new("k").unwrap(), 3, &ruling, Instant::now());
            }
        };
        deny(100);
        read(1);
        assert!(console.lock().top.is_empty(), "nobody looks");
        let top = || {
            let told: Value = serde_json::from_str(&console.stats(true)).unwrap();
            (told["top_denied"][0]["denied"].clone(), told["top_denied"][0]["second"].clone())
        };
        assert_eq!(top(), (json!(100), json!(0)), "the first who looks sees it at once");
        // For as long as this test takes.
        console.asked_at.store(u64::MAX, Ordering::Relaxed);
        deny(3);
        read(2);
        assert_eq!(top(), (json!(103), json!(3)));
        console.asked_at.store(0, Ordering::Relaxed);
        deny(1_000);
        read(3);
        assert_eq!(top(), (json!(1_103), json!(0)), "not all of them in the second in which one looks again");
    }

    #[test]
    fn only_who_watches_costs_a_message() {
        let console = console();
        assert!(!console.is_watched());
        let stream = console.stream(true, LiveTokens::default().pass(), &console.stats(true)).unwrap();
        assert!(console.is_watched() && told(&console)["streams"] == json!({ "open": 1, "most": 64 }));
        drop(stream);
        assert!(!console.is_watched());
        let before = epoch_millis();
        console.note_asked();
        assert!(console.asked_at.load(Ordering::Relaxed) >= before);
        console.asked_at.store(u64::MAX, Ordering::Relaxed);
        assert!(console.is_watched());
    }
}
