//! What one event loop gathers for the record of recent requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ratekeeper::Name;

use super::recent::{RecentRequests, RecordedRequests};

/// How many keys are gathered at a time; a power of two.
const PLACES: usize = 256;

/// Gathers the requests of one transport on one event loop. Locked by that loop for keys that are recorded, and once a
/// second by the reader: nobody waits.
#[derive(Debug)]
pub(super) struct RequestRecorder {
    shared: Arc<RecentRequests>,
    /// By the hash of the key. Empty until the first request.
    places: Mutex<Vec<Option<GatheredRequests>>>,
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
        RequestRecorder { shared: Arc::clone(shared), places: Mutex::default() }
    }

    /// Records a request that came at this instant, if its key is recorded. Costs a hash of the key if it is not.
    #[inline]
    pub(super) fn record(&self, request: AskedRequest<'_>, at: Instant) {
        if let Some(hash) = self.shared.sampled(request.key) {
            self.gather(hash, request, at);
        }
    }

    fn gather(&self, hash: u64, request: AskedRequest<'_>, at: Instant) {
        let tick = self.shared.tick_of(at);
        let mut places = self.lock();
        if places.is_empty() {
            places.resize(PLACES, None);
        }
        // The low bits: the high ones say whether a key is recorded, so they are alike.
        let place = &mut places[usize::try_from(hash % PLACES as u64).unwrap_or(0)];
        match place {
            Some(GatheredRequests { entry, plan })
                if entry.key == hash && entry.tick == tick && plan.as_ref() == request.plan =>
            {
                return entry.add(request.cost, request.is_denied);
            }
            _ => {}
        }
        let entry = RecordedRequests::one(hash, request.cost, tick, request.is_denied);
        let before = place.replace(GatheredRequests { entry, plan: request.plan.cloned() });
        drop(places);
        if let Some(GatheredRequests { entry, plan }) = before {
            self.shared.take(std::iter::once((entry, plan)));
        }
    }

    /// Hands in what was gathered before this instant's tick.
    pub(super) fn hand_in(&self, at: Instant) {
        let now = self.shared.tick_of(at);
        let is_due = |place: &mut GatheredRequests| place.entry.tick < now;
        let due: Vec<_> = self.lock().iter_mut().filter_map(|place| place.take_if(is_due)).collect();
        if !due.is_empty() {
            self.shared.take(due.into_iter().map(|GatheredRequests { entry, plan }| (entry, plan)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<GatheredRequests>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
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
}
