//! A store that keeps one record for each key, and knows nothing of limits: it passes the suite by the engine alone.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ratekeeper::port::{
    Answer, Charge, Clock, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store,
    Whole,
};
use ratekeeper::store::LoadedKeys;
use ratekeeper::testkit::FakeClock;
use ratekeeper::testkit::conformance::{Bench, check};
use ratekeeper::{Charged, Cost, Decision, Key, MemoryStore, StoreError, Timestamp};

/// Rows, as a database has them.
#[derive(Debug)]
struct Rows {
    clock: FakeClock,
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// What the engine answers is ready at once.
fn ready<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    answer.now().unwrap_or_else(|_| panic!("not ready"))
}

impl Rows {
    /// Loads the rows of these keys, has the engine decide, and writes them back.
    fn ask<'a, T>(
        &'a self,
        keys: Vec<Key<'a>>,
        verb: impl FnOnce(&MemoryStore) -> Result<T, StoreError>,
    ) -> Answer<'a, T> {
        let loaded = LoadedKeys::at(self.clock.now());
        let mut rows = self.rows.lock().unwrap();
        let mut known: Vec<Key<'_>> = Vec::new();
        for key in keys {
            if !known.iter().any(|other| other.as_bytes() == key.as_bytes()) {
                rows.get(key.as_bytes()).into_iter().for_each(|record| loaded.load(key, record).unwrap());
                known.push(key);
            }
        }
        let answer = verb(loaded.store());
        for key in known {
            match loaded.record(key) {
                Some(record) => {
                    assert!(record.expires > self.clock.now());
                    rows.insert(key.as_bytes().to_vec(), record.bytes)
                }
                None => rows.remove(key.as_bytes()),
            };
        }
        Answer::ready(answer)
    }
}

impl Store for Rows {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.ask(vec![request.key], |store| ready(store.acquire(request)))
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        self.ask(vec![request.key], |store| ready(store.acquire_up_to(request, most)))
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        self.ask(vec![request.key], |store| ready(store.peek(request)))
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.ask(vec![request.key], |store| ready(store.acquire_each(request)))
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.ask(vec![request.key], |store| ready(store.peek_each(request)))
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.ask(vec![request.key], |store| ready(store.debit(request)))
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        let keys = charges.iter().map(|charge| charge.request.key).collect();
        self.ask(keys, |store| ready(store.charge(charges, whole)))
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        self.ask(vec![hold.key], |store| ready(store.hold(hold)))
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        self.ask(vec![change.key], |store| ready(store.change_hold(change)))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        self.ask(vec![request.key], |store| ready(store.refund(request, charged)))
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        self.ask(vec![request.key], |store| ready(store.reset(request)))
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        let mut forgotten = 0;
        self.rows.lock().unwrap().retain(|bytes, record| {
            let starts = bytes.starts_with(prefix);
            if starts {
                let (loaded, key) = (LoadedKeys::at(self.clock.now()), Key::new(bytes).unwrap());
                loaded.load(key, record).unwrap();
                forgotten += loaded.live(key);
            }
            !starts
        });
        Answer::ready(Ok(forgotten))
    }
}

#[tokio::test]
async fn records_are_all_that_a_store_needs() {
    let clock = FakeClock::at(Timestamp::from_nanos(1_761_884_055_342_794_596));
    let rows = Rows { clock: clock.clone(), rows: Mutex::default() };
    check(&Bench::new(&rows, &clock)).await;
    // A hundred years later nothing of it counts: whoever looks at a key leaves no row.
    clock.advance(ratekeeper::Nanos::from_secs(100 * 366 * 86_400));
    let keys: Vec<Vec<u8>> = rows.rows.lock().unwrap().keys().cloned().collect();
    assert!(!keys.is_empty());
    let quota = "1/s".parse().unwrap();
    for key in &keys {
        let request = Request::new(Key::new(key).unwrap(), ratekeeper::Rules::Quota(&quota), Cost::ZERO);
        assert!(rows.peek(request).await.unwrap().allowed);
    }
    assert!(rows.rows.lock().unwrap().is_empty());
}
