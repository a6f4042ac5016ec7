//! Any bytes as a snapshot, or as the record of a key, for tests and for fuzzing: they are refused, or they are a store that
//! can be used.

use std::sync::Arc;

use super::builder::MemoryStoreBuilder;
use super::loaded_keys::LoadedKeys;
use super::snapshot::checksum;
use super::snapshot_error::SnapshotError;
use super::store::MemoryStore;
use crate::port::{HoldAction, HoldChange, HoldId, HoldRequest, Plans, Request, Store};
use crate::testkit::FakeClock;
use crate::{Amounts, Charged, Cost, Decision, Key, Nanos, Plan, Quota, Rules, Timestamp};

/// The bytes have no checksum: the right one is added.
const IS_MENDED: u8 = 1;
/// The store keeps keys in clear.
const KEEPS_KEYS: u8 = 2;

/// A second key has the record, too.
const IS_OF_BOTH: u8 = 1;

/// When snapshots of the seeds were written. The store is restored some seconds later.
const WRITTEN: Timestamp = Timestamp::from_secs(1_700_000_000);

/// The keys that are asked for, and what under: all algorithms by a plan and by quotas of requests, and what is held.
const KEYS: [&str; 2] = ["a", "user:42"];
const RATES: &str = "a=5 per 60s; b=6 per 60s bucket; c=7 per 60s leaky; d=8 per 60s fixed; e=9 per 60s sliding; \
                     f=10 per 60s log; g=11/day fixed calendar";
const HELD: &str = "r=60 per 60s; s=11 tokens per 60s bucket; t=12 tokens per 60s log; u=3 concurrent";
const QUOTAS: [&str; 6] = ["5/m", "6/m bucket", "7/m leaky", "8/m fixed", "9/m sliding", "10/m log"];

/// Restores bytes, after a byte of flags, and uses the store that they are.
///
/// # Panics
///
/// A store comes of nothing, or a key has more than its quota; what is written of it cannot be read again; or the error is
/// not one short line.
pub fn exercise_snapshot(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut file = bytes.to_vec();
    if flags & IS_MENDED != 0 {
        file.extend_from_slice(&checksum(bytes).to_be_bytes());
    }
    let clock = FakeClock::at(WRITTEN + Nanos::from_secs(u64::from(flags >> 4) * 5));
    let builder = || builder(&clock).keep_keys(flags & KEEPS_KEYS != 0);
    let store = match builder().restore(&file) {
        Ok(store) => store,
        Err(error) => return check_error(&error),
    };
    // A state takes 25 bytes at least, and a hold more than that.
    assert!(store.statistics().keys * 25 <= file.len(), "{} states of {} bytes", store.len(), file.len());
    assert!(store.live_hold_count() * 42 <= file.len());
    check_again(&store, builder());
    let plans = [plan("rates", RATES), plan("held", HELD)];
    for round in 0..3 {
        KEYS.iter().for_each(|key| use_key(&store, key, &plans));
        clock.advance(Nanos::from_secs(7 << round));
    }
    check_again(&store, builder());
}

/// Loads bytes, after a byte that tells how much later it is and whether a second key has them too, as what is known of a
/// key, and uses the store that they are.
///
/// # Panics
///
/// A key has more than its quota; what is written of it cannot be loaded again, or is not the same then; or the error is not
/// one short line.
pub fn exercise_record(bytes: &[u8]) {
    let (flags, record) = bytes.split_first().unwrap_or((&0, &[]));
    let now = WRITTEN + Nanos::from_secs(u64::from(flags >> 4) * 5);
    let keys = KEYS.map(key);
    let loaded = LoadedKeys::of(now, keys.len());
    for key in &keys[..=usize::from(flags & IS_OF_BOTH != 0)] {
        if let Err(error) = loaded.load(*key, record) {
            return check_error(&error);
        }
    }
    // A state takes 25 bytes at least, and a hold more than that.
    assert!(loaded.store().len() * 25 <= record.len() * 2);
    let plans = [plan("rates", RATES), plan("held", HELD)];
    for _ in 0..2 {
        for (key, name) in keys.into_iter().zip(KEYS) {
            if let Some(written) = loaded.record(key) {
                let again = LoadedKeys::at(now);
                assert_eq!(again.load(key, &written.bytes), Ok(()), "what was written cannot be loaded");
                assert_eq!(again.record(key), Some(written), "what was loaded is written as it was");
            }
            loaded.live(key);
            use_key(loaded.store(), name, &plans);
        }
    }
}

/// Says in one short line what is wrong.
fn check_error(error: &SnapshotError) {
    let error = error.to_string();
    assert!(error.len() <= 256 && !error.contains(char::is_control), "{error}");
}

fn key(name: &str) -> Key<'_> {
    let Ok(key) = Key::new(name) else { panic!("{name}") };
    key
}

fn builder(clock: &FakeClock) -> MemoryStoreBuilder {
    MemoryStore::builder().max_keys(1_000).max_bytes(4 << 20).clock(clock.clone())
}

fn plan(name: &str, rules: &str) -> Arc<Plan> {
    match Plan::parse(name, rules) {
        Ok(plan) => Arc::new(plan),
        Err(error) => panic!("{error}"),
    }
}

/// What is written of a store can be read, and is as much.
fn check_again(store: &MemoryStore, builder: MemoryStoreBuilder) {
    let snapshot = store.snapshot();
    let again = match builder.restore(&snapshot) {
        Ok(again) => again,
        Err(error) => panic!("what was written cannot be read: {error}"),
    };
    assert_eq!(again.live_hold_count(), store.live_hold_count(), "as many holds as were written");
    assert_eq!(again.snapshot().len(), snapshot.len(), "as much as was written");
}

/// Asks for everything that a key can be asked for. However wrong its states are, it has no more than its quotas.
fn use_key(store: &MemoryStore, key: &str, plans: &[Arc<Plan>; 2]) {
    let key = self::key(key);
    let [rates, held] = plans;
    for cost in [Cost::ZERO, Cost::ONE, Cost::new(3)] {
        ask(store, Request::new(key, Rules::Plans(std::slice::from_ref(rates)), cost));
        for quota in QUOTAS {
            let Ok(quota) = quota.parse::<Quota>() else { panic!("{quota}") };
            ask(store, Request::new(key, Rules::Quota(&quota), cost));
        }
    }
    let (held, tokens) = (std::slice::from_ref(held), [("tokens", 2)]);
    let id = HoldId::from_bits(9);
    let hold =
        HoldRequest { key, plans: held, amounts: Amounts::of(&tokens), id, lease: Nanos::from_secs(20) };
    if let Ok(Ok(standing)) = store.hold(hold).now() {
        standing.each.iter().for_each(check);
    }
    let live = store.live_holds();
    let ids = live.iter().map(|hold| hold.id).take(8).chain((1..4).map(HoldId::from_bits));
    for (number, id) in ids.enumerate() {
        let action = match number % 3 {
            0 => HoldAction::Extend(Nanos::from_secs(30)),
            1 => HoldAction::Settle(Amounts::of(&tokens)),
            _ => HoldAction::Cancel,
        };
        let change = HoldChange { key, id, action, plans: &NoPlans };
        if let Ok(Ok(outcome)) = store.change_hold(change).now() {
            outcome.each().for_each(|(_, _, decision)| check(decision));
        }
    }
}

fn ask(store: &MemoryStore, request: Request<'_>) {
    let Ok(Ok(seen)) = store.peek_each(request).now() else { panic!("a store in memory answers at once") };
    seen.each.iter().for_each(check);
    let Ok(Ok(taken)) = store.acquire_each(request).now() else {
        panic!("a store in memory answers at once")
    };
    taken.each.iter().for_each(check);
    assert_eq!(taken.decision.allowed, seen.decision.allowed, "what is foreseen comes true");
    let Ok(Ok(back)) = store.refund(request, Charged::ago(Nanos::from_secs(1))).now() else {
        panic!("a refund")
    };
    check(&back);
    if let Ok(Ok(debited)) = store.debit(request).now() {
        debited.each.iter().for_each(check);
    }
}

/// Nobody has more than there is.
fn check(decision: &Decision) {
    assert!(decision.remaining <= decision.limit, "{decision:?}");
}

#[derive(Debug)]
struct NoPlans;

impl Plans for NoPlans {
    fn find(&self, _: &str) -> Option<Arc<Plan>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of a store in which everything was asked for.
    fn written(keeps_keys: bool) -> Vec<u8> {
        let clock = FakeClock::at(WRITTEN);
        let store = builder(&clock).keep_keys(keeps_keys).build();
        let plans = [plan("rates", RATES), plan("held", HELD)];
        KEYS.iter().for_each(|key| use_key(&store, key, &plans));
        store.snapshot()
    }

    /// The bytes to write at a position: one of four, or all of them in a thorough run.
    fn bytes(at: usize) -> Vec<u8> {
        let all = [0, 1, 0x7f, 0xff];
        if std::env::var_os("RATEKEEPER_THOROUGH").is_some() { all.to_vec() } else { vec![all[at % 4]] }
    }

    /// Whatever byte a disk changes, with and without a corrected checksum: no panic, and no request more is allowed.
    #[test]
    fn any_byte_may_be_another() {
        for (flags, keeps_keys) in [(0, false), (IS_MENDED, false), (IS_MENDED | KEEPS_KEYS | 0x10, true)] {
            let mut file = written(keeps_keys);
            if flags & IS_MENDED != 0 {
                file.truncate(file.len() - 8);
            }
            exercise_snapshot(&[&[flags], &file[..]].concat());
            for at in (0..file.len()).step_by(3) {
                for byte in bytes(at) {
                    let mut changed = [&[flags], &file[..]].concat();
                    changed[at + 1] = byte;
                    exercise_snapshot(&changed);
                }
            }
        }
    }

    /// What is known of a key that was asked for everything, and then reset.
    fn record(is_reset: bool) -> Vec<u8> {
        let (loaded, plans) = (LoadedKeys::at(WRITTEN), [plan("rates", RATES), plan("held", HELD)]);
        use_key(loaded.store(), KEYS[0], &plans);
        if is_reset {
            let request = Request::new(key(KEYS[0]), Rules::Plans(&plans[..1]), Cost::ONE);
            assert!(loaded.store().reset(request).now().unwrap().is_ok());
        }
        loaded.record(key(KEYS[0])).unwrap().bytes
    }

    #[test]
    fn any_byte_of_a_record_may_be_another() {
        for (flags, is_reset) in [(0, false), (IS_OF_BOTH, false), (0x10, true)] {
            let record = [&[flags][..], &record(is_reset)].concat();
            exercise_record(&record);
            for at in (1..record.len()).step_by(3) {
                for byte in bytes(at) {
                    let mut changed = record.clone();
                    changed[at] = byte;
                    exercise_record(&changed);
                }
            }
        }
    }
}
