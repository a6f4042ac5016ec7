//! The compare-and-set store: what it writes, byte for byte, and what it does when it loses a race.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::port::{Answer, KeyValue, Request, Store};
use ratekeeper::state::OnUnreadable;
use ratekeeper::testkit::{FakeClock, MemoryValues};
use ratekeeper::{
    CasStore, Charged, Cost, Key, MemoryStore, Nanos, Plan, Quota, Rules, StoreErrorKind, Timestamp,
};

const NOW: i64 = 1_761_884_055_342_794_596;

fn lab() -> (FakeClock, MemoryValues, CasStore<MemoryValues>) {
    let clock = FakeClock::at(Timestamp::from_nanos(NOW));
    let values = MemoryValues::new(clock.clone());
    let store = CasStore::new(values.clone()).clock(clock.clone());
    (clock, values, store)
}

fn request<'a>(key: &'a str, rules: Rules<'a>, cost: u64) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), rules, Cost::new(cost))
}

/// The text that another language's service with the same layout would find and write.
#[tokio::test]
async fn the_stored_text_is_the_shared_format() {
    let (_, values, store) = lab();
    let rows = [
        ("10/s bucket", 3, "12|7|1761884055342794596", 300),
        ("10/m fixed", 3, "81|fixed:60000000000=23|1|fixed:60000000000|3|1761884055342794596", 60_000),
        ("10/s leaky", 5, "32|5|1761884055342794596", 500),
        ("1/s", 1, "42|1761884056342794596", 1_000),
        ("10/m sliding", 2, "81|sliding:60000000000=61|0|2|1761884055342794596", 120_000),
        ("10/m log", 2, "81|log:60000000000=71|1|1761884055342794596|2", 60_001),
    ];
    for (text, cost, expected, ttl_ms) in rows {
        let quota: Quota = text.parse().unwrap();
        assert!(store.acquire(request(text, Rules::Quota(&quota), cost)).await.unwrap().allowed);
        let (value, expires) = values.value(format!("rate_limiter:{{{text}}}").as_bytes()).unwrap();
        assert_eq!(value, expected, "{text}");
        let ttl = expires.since(Timestamp::from_nanos(NOW));
        assert_eq!(ttl.ceil_millis(), ttl_ms, "{text}: the time to full");
    }
    let plan = Plan::parse("gold", "a=10/s bucket; hourly=10/h fixed; daily=20/day fixed").unwrap();
    store.acquire(request("50%{x}", Rules::Plan(&plan), 2)).await.unwrap();
    let (value, _) = values.value(b"rate_limiter:{50%25%7Bx%7D}:gold").unwrap();
    assert_eq!(
        value,
        "81|a=12|8|1761884055342794596$hourly=23|1|hourly|2|1761884055342794596\
         $daily=23|1|daily|2|1761884055342794596"
    );
}

/// A `:` in the name of a plan is not the end of it: escaped, as every store of this layout does.
#[tokio::test]
async fn a_colon_in_the_name_of_a_plan_is_escaped() {
    let (_, values, store) = lab();
    let plan = Plan::parse("pro:eu", "1/s").unwrap();
    assert!(store.acquire(request("user:1", Rules::Plan(&plan), 1)).await.unwrap().allowed);
    let (value, _) = values.value(b"rate_limiter:{user:1}:pro%3Aeu").unwrap();
    assert_eq!(value, "81|per-s=42|1761884056342794596");
    assert!(values.value(b"rate_limiter:{user:1}:pro:eu").is_none());
    assert_eq!(store.reset(request("user:1", Rules::Plan(&plan), 1)).await.unwrap(), 1);
    assert!(values.value(b"rate_limiter:{user:1}:pro%3Aeu").is_none(), "found again to be forgotten");
}

/// A state that somebody else wrote counts.
#[tokio::test]
async fn a_foreign_state_is_shared() {
    let (_, values, store) = lab();
    let quota: Quota = "10/h bucket".parse().unwrap();
    values.set(b"rate_limiter:{shared}", "12|2.5|1761884055342794596", Nanos::from_secs(3_600));
    let decision = store.acquire(request("shared", Rules::Quota(&quota), 2)).await.unwrap();
    assert_eq!((decision.allowed, decision.remaining), (true, 0));
    assert!(!store.acquire(request("shared", Rules::Quota(&quota), 1)).await.unwrap().allowed);
    assert_eq!(values.value(b"rate_limiter:{shared}").unwrap().0, "12|0.5|1761884055342794596");
}

#[tokio::test]
async fn a_denial_and_a_peek_write_nothing() {
    let (clock, values, store) = lab();
    let quota: Quota = "1/h".parse().unwrap();
    store.acquire(request("key", Rules::Quota(&quota), 1)).await.unwrap();
    let before = values.value(b"rate_limiter:{key}");
    clock.advance(Nanos::from_secs(60));
    for cost in [0, 1, 2] {
        store.acquire(request("key", Rules::Quota(&quota), cost)).await.unwrap();
        store.peek(request("key", Rules::Quota(&quota), cost)).await.unwrap();
    }
    assert_eq!(values.value(b"rate_limiter:{key}"), before, "neither the value nor its time to live");
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_or_forgotten_never_silently_fresh() {
    let (clock, values, store) = lab();
    let quota: Quota = "10/h".parse().unwrap();
    for (index, foreign) in ["43|1", "42|soon", "gibberish", "81|gcra=42|1$gcra=42|2"].iter().enumerate() {
        let key = format!("foreign{index}");
        let place = format!("rate_limiter:{{{key}}}");
        values.set(place.as_bytes(), foreign, Nanos::from_secs(3_600));
        let error = store.acquire(request(&key, Rules::Quota(&quota), 1)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{foreign}");
        assert!(!error.is_transient() && error.to_string().contains("policy `reset`"), "{error}");
        assert_eq!(values.value(place.as_bytes()).unwrap().0, *foreign, "an error changes nothing");
        let lenient = CasStore::new(values.clone()).clock(clock.clone()).on_unreadable(OnUnreadable::Reset);
        assert_eq!(lenient.acquire(request(&key, Rules::Quota(&quota), 1)).await.unwrap().remaining, 9);
        assert_eq!(store.peek(request(&key, Rules::Quota(&quota), 1)).await.unwrap().remaining, 9);
    }
    values.set(b"rate_limiter:{forget}", "gibberish", Nanos::from_secs(3_600));
    assert_eq!(store.reset(request("forget", Rules::Quota(&quota), 0)).await.unwrap(), 0);
    assert_eq!(values.value(b"rate_limiter:{forget}"), None);
}

/// What other rules and other quotas left stays, and a rule whose algorithm has changed starts fresh, which is counted.
#[tokio::test]
async fn states_are_found_by_name_and_others_are_kept() {
    let (_, values, store) = lab();
    let plan = |text: &str| Plan::parse("edited", text).unwrap();
    let (old, new) = (plan("a=9/h; b=9/h bucket"), plan("c=9/h leaky; b=9/h bucket"));
    for plan in [&old, &new, &old, &new] {
        assert!(store.acquire(request("k", Rules::Plan(plan), 2)).await.unwrap().allowed);
    }
    let left = async |text: &str| {
        let plan = plan(text);
        store.peek(request("k", Rules::Plan(&plan), 1)).await.unwrap().remaining
    };
    assert_eq!((left("a=9/h").await, left("b=9/h bucket").await, left("c=9/h leaky").await), (5, 1, 5));
    let (value, expires) = values.value(b"rate_limiter:{k}:edited").unwrap();
    assert!(value.starts_with("81|c=32|4|"), "{value}");
    assert!(expires > Timestamp::from_nanos(NOW) + Nanos::from_secs(3_600), "others are not hurried");
    assert_eq!(store.algorithms_changed(), 0);
    let changed = plan("a=9/h fixed");
    assert_eq!(store.acquire(request("k", Rules::Plan(&changed), 1)).await.unwrap().remaining, 8);
    assert_eq!((store.algorithms_changed(), left("b=9/h bucket").await), (1, 1));
}

#[tokio::test]
async fn several_plans_at_once_are_refused() {
    let (_, _, store) = lab();
    let plans = ["a", "b"].map(|name| Arc::new(Plan::parse(name, "1/s").unwrap()));
    let error = store.acquire(request("key", Rules::Plans(&plans), 1)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    let one = store.acquire(request("key", Rules::Plans(&plans[..1]), 1)).await.unwrap();
    assert!(one.allowed);
}

/// However many writers race, exactly the quota is admitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_under_races() {
    let (_, _, store) = lab();
    let store = Arc::new(store);
    let admitted = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..16)
        .map(|_| {
            let (store, admitted) = (store.clone(), admitted.clone());
            tokio::spawn(async move {
                let quota: Quota = "60/h".parse().unwrap();
                for _ in 0..8 {
                    let decision = store.acquire(request("raced", Rules::Quota(&quota), 1)).await.unwrap();
                    admitted.fetch_add(u64::from(decision.allowed), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(admitted.load(Ordering::Relaxed), 60);
}

/// Values that somebody else always changes first.
#[derive(Debug, Default)]
struct Contended(AtomicU64);

impl KeyValue for Contended {
    fn get<'a>(&'a self, _: &'a [u8]) -> Answer<'a, Option<String>> {
        Answer::ready(Ok(None))
    }

    fn compare_and_set<'a>(
        &'a self,
        _: &'a [u8],
        _: Option<&'a str>,
        _: &'a str,
        _: Nanos,
    ) -> Answer<'a, bool> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answer::ready(Ok(false))
    }

    fn delete<'a>(&'a self, _: &'a [u8]) -> Answer<'a, bool> {
        Answer::ready(Ok(false))
    }
}

/// Each lost race means that somebody else took one, so there are at most `burst + 1` of them.
#[tokio::test(start_paused = true)]
async fn lost_races_are_bounded() {
    let values = Arc::new(Contended::default());
    let store = CasStore::new(values.clone());
    let quota: Quota = "5/h".parse().unwrap();
    let error = store.acquire(request("key", Rules::Quota(&quota), 1)).await.unwrap_err();
    assert_eq!((error.kind(), values.0.load(Ordering::Relaxed)), (StoreErrorKind::Contended, 6));
}

/// A second reset, of nothing or of what cannot be read, made the store forget the first: what was charged before was
/// given back after.
#[tokio::test]
async fn what_was_reset_stays_reset() {
    for unreadable in [false, true] {
        let (clock, values, store) = lab();
        let plan = Plan::parse("gold", "5/h").unwrap();
        let ask = |cost| request("k", Rules::Plan(&plan), cost);
        let charged = store.acquire(ask(5)).await.unwrap().charged_at().unwrap();
        if unreadable {
            values.set(b"rate_limiter:{k}:gold", "what is this", Nanos::from_secs(9));
        } else {
            store.reset(ask(0)).await.unwrap();
        }
        clock.advance(Nanos::from_secs(1));
        store.reset(ask(0)).await.unwrap();
        clock.advance(Nanos::from_secs(1));
        assert!(store.acquire(ask(5)).await.unwrap().allowed);
        let left = store.refund(ask(5), Charged::at(charged)).await.unwrap().remaining;
        assert_eq!(left, 0, "unreadable: {unreadable}");
    }
}

/// Values in which somebody takes four just before anything is deleted.
#[derive(Clone, Debug)]
struct Between {
    values: MemoryValues,
    clock: FakeClock,
    charged: Arc<AtomicU64>,
}

impl KeyValue for Between {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        self.values.get(key)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        self.values.compare_and_set(key, old, new, ttl)
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        Answer::later(async move {
            self.clock.advance(Nanos::from_millis(1));
            let other = CasStore::new(self.values.clone()).clock(self.clock.clone());
            let plan = Plan::parse("gold", "5/h").unwrap();
            let taken = other.acquire(request("k", Rules::Plan(&plan), 4)).await?.charged_at().unwrap();
            self.charged.store(taken.as_nanos().cast_unsigned(), Ordering::Relaxed);
            self.clock.advance(Nanos::from_millis(1));
            self.values.delete(key).await
        })
    }
}

/// What was charged between the marker of a reset and the deletion was forgotten, and could be given back all the same.
#[tokio::test]
async fn what_is_charged_during_a_reset_is_reset() {
    let (clock, values, _) = lab();
    let values = Between { values, clock: clock.clone(), charged: Arc::default() };
    let store = CasStore::new(values.clone()).clock(clock.clone());
    let plan = Plan::parse("gold", "5/h").unwrap();
    let ask = |cost| request("k", Rules::Plan(&plan), cost);
    assert!(store.acquire(ask(1)).await.unwrap().allowed);
    clock.advance(Nanos::from_secs(1));
    store.reset(ask(0)).await.unwrap();
    clock.advance(Nanos::from_secs(1));
    assert!(store.acquire(ask(5)).await.unwrap().allowed);
    let charged = Timestamp::from_nanos(values.charged.load(Ordering::Relaxed).cast_signed());
    assert_eq!(store.refund(ask(4), Charged::at(charged)).await.unwrap().remaining, 0);
}

/// A window of the calendar may be longer than the length in its name: on the 31st, on the 366th day of a year and in
/// the 25th hour of a day it still counts. A reset used to leave it out of its count then.
#[tokio::test]
async fn a_reset_counts_a_window_until_its_calendar_ends() {
    let rows = [
        ("5/month fixed calendar", 1_735_689_600, 30 * 86_400 + 43_200),
        ("5/year fixed calendar", 1_704_067_200, 365 * 86_400 + 43_200),
        #[cfg(feature = "timezones")]
        ("5/day fixed calendar Europe/Berlin", 1_761_429_600, 86_400 + 1_800),
        #[cfg(feature = "timezones")]
        ("5/month fixed calendar America/Argentina/Buenos_Aires", 1_735_700_400, 30 * 86_400 + 43_200),
    ];
    for (text, start, later) in rows {
        let clock = FakeClock::at(Timestamp::from_secs(start));
        let in_memory = MemoryStore::builder().clock(clock.clone()).build();
        let by_text = CasStore::new(MemoryValues::new(clock.clone())).clock(clock.clone());
        let (quota, other): (Quota, Quota) = (text.parse().unwrap(), "1/s".parse().unwrap());
        for store in [&in_memory as &dyn Store, &by_text] {
            for asked in [&other, &quota] {
                store.acquire(request("k", Rules::Quota(asked), 1)).await.unwrap();
            }
        }
        clock.advance(Nanos::from_secs(later));
        for store in [&in_memory as &dyn Store, &by_text] {
            assert_eq!(store.reset(request("k", Rules::Quota(&other), 0)).await.unwrap(), 1, "{text}");
        }
    }
}

/// Values that count how often they are read.
#[derive(Clone, Debug)]
struct Counted(MemoryValues, Arc<AtomicU64>);

impl KeyValue for Counted {
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, Option<String>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.get(key)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a [u8],
        old: Option<&'a str>,
        new: &'a str,
        ttl: Nanos,
    ) -> Answer<'a, bool> {
        self.0.compare_and_set(key, old, new, ttl)
    }

    fn delete<'a>(&'a self, key: &'a [u8]) -> Answer<'a, bool> {
        self.0.delete(key)
    }
}

/// Where there is nothing to give back to, or nothing to give back, nobody asks whether it was reset.
#[tokio::test]
async fn a_refund_of_nothing_asks_once() {
    let (clock, values, _) = lab();
    let values = Counted(values, Arc::default());
    let store = CasStore::new(values.clone()).clock(clock);
    let plan = Plan::parse("gold", "5/h").unwrap();
    let ask = |cost| request("k", Rules::Plan(&plan), cost);
    let asked = || values.1.swap(0, Ordering::Relaxed);
    store.refund(ask(1), Charged::at(Timestamp::from_nanos(NOW))).await.unwrap();
    assert_eq!(asked(), 1, "an unknown key");
    let charged = store.acquire(ask(2)).await.unwrap().charged_at().unwrap();
    asked();
    store.refund(ask(0), Charged::at(charged)).await.unwrap();
    assert_eq!(asked(), 1, "nothing");
    assert_eq!(store.refund(ask(2), Charged::at(charged)).await.unwrap().remaining, 5);
    assert_eq!(asked(), 2, "the state, and whether it was reset");
}
