//! What one event loop gathers for the record of recent requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ratekeeper::Name;

use super::recent::{RecentRequests, RecordedRequests};

/// How many keys are gathered at a time; a power of two.
const PLACES: usize = 256;
/// How many more are gathered that have lost their place to another key, before they are handed in together.
const MOST_DISPLACED: usize = 64;

/// Gathers the requests of one transport on one event loop. Locked by that loop for keys that are recorded, and once a
/// second by the reader: nobody waits.
#[derive(Debug)]
pub(super) struct RequestRecorder {
    shared: Arc<RecentRequests>,
    gathered: Mutex<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    /// By the hash of key and plan. Empty until the first request.
    places: Vec<Option<GatheredRequests>>,
    /// What lost its place. Two keys that want the same place must not hand each other in at every request: the record is one
    /// for all event loops, and it would be full of them.
    displaced: Vec<GatheredRequests>,
}

#[derive(Clone, Debug)]
struct GatheredRequests {
    entry: RecordedRequests,
    plan: Option<Name>,
}

/// A request that was decided, as it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedRequest<'a> {
    /// Who asked.
    pub(crate) key: &'a [u8],
    /// The plan that it was held to; of several the one that denied, or the first. None for a quota of the request's own.
    pub(crate) plan: Option<&'a Name>,
    /// How much was wanted.
    pub(crate) cost: u64,
    /// Whether it was denied.
    pub(crate) is_denied: bool,
}

impl RequestRecorder {
    /// Returns a recorder that gathers for this record.
    pub(super) fn new(shared: &Arc<RecentRequests>) -> Self {
        RequestRecorder { shared: Arc::clone(shared), gathered: Mutex::default() }
    }

    /// Records a request that came at this instant, if its key is recorded. Costs a hash of the key if it is not. If it is,
    /// it costs a hash of the plan's name and a lock that only the reader takes besides; and once in a tick for each key and
    /// plan, a new entry.
    #[inline]
    pub(super) fn record(&self, request: AskedRequest<'_>, at: Instant) {
        if let Some(hash) = self.shared.sampled(request.key) {
            self.gather(hash, request, at);
        }
    }

    fn gather(&self, hash: u64, request: AskedRequest<'_>, at: Instant) {
        let tick = self.shared.tick_of(at);
        let place = self.place_of(hash, request.plan);
        let mut gathered = self.lock();
        let displaced = gathered.add(place, hash, tick, request);
        drop(gathered);
        if !displaced.is_empty() {
            self.shared.take(displaced.into_iter().map(GatheredRequests::into_parts));
        }
    }

    /// Returns where a key is gathered. The plan counts, too: the same key is asked for under several at once.
    fn place_of(&self, hash: u64, plan: Option<&Name>) -> usize {
        let plan = plan.map_or(0, |plan| self.shared.hash_of(plan.as_str().as_bytes()));
        // The low bits: the high ones say whether a key is recorded, so they are alike.
        usize::try_from((hash ^ plan) % PLACES as u64).unwrap_or(0)
    }

    /// Hands in what was gathered before this instant's tick.
    pub(super) fn hand_in(&self, at: Instant) {
        let due = self.lock().take_before(self.shared.tick_of(at));
        if !due.is_empty() {
            self.shared.take(due.into_iter().map(GatheredRequests::into_parts));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gathered {
    /// Adds a request, and returns what must be handed in to have room for it.
    fn add(&mut self, place: usize, key: u64, tick: u32, request: AskedRequest<'_>) -> Vec<GatheredRequests> {
        if self.places.is_empty() {
            self.places.resize(PLACES, None);
        }
        let is_same = |known: &&mut GatheredRequests| {
            known.entry.key == key && known.entry.tick == tick && known.plan.as_ref() == request.plan
        };
        let place = &mut self.places[place];
        let known = place.as_mut().filter(is_same);
        if let Some(known) = known.or_else(|| self.displaced.iter_mut().find(is_same)) {
            known.entry.add(request.cost, request.is_denied);
            return Vec::new();
        }
        let entry = RecordedRequests::one(key, request.cost, tick, request.is_denied);
        self.displaced.extend(place.replace(GatheredRequests { entry, plan: request.plan.cloned() }));
        match self.displaced.len() < MOST_DISPLACED {
            true => Vec::new(),
            false => std::mem::take(&mut self.displaced),
        }
    }

    /// Takes out what was gathered before this tick.
    fn take_before(&mut self, tick: u32) -> Vec<GatheredRequests> {
        let is_due = |gathered: &GatheredRequests| gathered.entry.tick < tick;
        let (mut due, growing): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.displaced).into_iter().partition(is_due);
        self.displaced = growing;
        due.extend(self.places.iter_mut().filter_map(|place| place.take_if(|gathered| is_due(gathered))));
        due
    }
}

impl GatheredRequests {
    fn into_parts(self) -> (RecordedRequests, Option<Name>) {
        (self.entry, self.plan)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_of_one_tick_are_one_entry() {
        let shared = Arc::new(RecentRequests::default());
        shared.begin();
        let recorder = RequestRecorder::new(&shared);
        let now = Instant::now();
        let ask = |key: &'static str, is_denied| AskedRequest {
            key: key.as_bytes(),
            plan: None,
            cost: 2,
            is_denied,
        };
        for number in 0..1_000 {
            recorder.record(ask("hot", number >= 10), now);
        }
        recorder.record(ask("other", false), now);
        recorder.hand_in(now + Duration::from_secs(1));
        let mut entries = shared.window(None).entries;
        entries.sort_by_key(|entry| entry.asked);
        let counts: Vec<_> = entries.iter().map(|entry| (entry.asked, entry.denied, entry.cost)).collect();
        assert_eq!(counts, [(1, 0, 2), (1_000, 990, 2_000)]);
        recorder.record(ask("hot", false), now + Duration::from_secs(1));
        recorder.record(ask("hot", false), now + Duration::from_secs(2));
        recorder.hand_in(now + Duration::from_secs(2));
        assert_eq!(shared.entry_count(), 3, "what may still grow is not handed in");
    }
    /// Returns a record of two keys that want the same place, and those keys.
    fn colliding(recorder: &RequestRecorder) -> [String; 2] {
        let place = |key: &str| recorder.place_of(recorder.shared.sampled(key.as_bytes()).unwrap(), None);
        let wanted = place("one");
        let other = (0..).map(|number| format!("other-{number}")).find(|key| place(key) == wanted);
        ["one".to_owned(), other.unwrap()]
    }

    #[test]
    fn what_takes_turns_is_not_an_entry_for_every_request() {
        let shared = Arc::new(RecentRequests::default());
        shared.begin();
        let recorder = RequestRecorder::new(&shared);
        let now = Instant::now();
        let plans = ["read", "write"].map(|name| Name::new(name).unwrap());
        let keys = colliding(&recorder);
        for number in 0..1_000 {
            let ask = |key: &'static [u8], plan| AskedRequest { key, plan, cost: 1, is_denied: false };
            // One key under two plans, as of an address for each endpoint.
            recorder.record(ask(b"both", Some(&plans[number % 2])), now);
            // Two keys that want one place.
            let key = keys[number % 2].as_bytes();
            recorder.record(AskedRequest { key, plan: None, cost: 1, is_denied: false }, now);
        }
        assert_eq!(shared.entry_count(), 0, "nobody had to give way for long");
        recorder.hand_in(now + Duration::from_secs(1));
        let entries = shared.window(None).entries;
        assert_eq!(entries.iter().map(|entry| entry.asked).collect::<Vec<_>>(), [500; 4]);
    }

    #[test]
    fn many_keys_are_handed_in_many_at_a_time_and_none_is_lost() {
        let shared = Arc::new(RecentRequests::default());
        shared.begin();
        let recorder = RequestRecorder::new(&shared);
        let (now, mut before) = (Instant::now(), 0);
        for number in 0..10_000_u32 {
            let key = &number.to_be_bytes();
            recorder.record(AskedRequest { key, plan: None, cost: 1, is_denied: false }, now);
            let entries = shared.entry_count();
            assert!(entries == before || entries == before + MOST_DISPLACED, "{before} and then {entries}");
            before = entries;
        }
        assert!(before > 9_000);
        recorder.hand_in(now + Duration::from_secs(1));
        assert_eq!(shared.entry_count(), 10_000);
    }
}
