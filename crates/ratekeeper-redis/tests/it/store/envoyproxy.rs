//! The counters of envoyproxy/ratelimit: their names at given times, and what is counted in them.

use std::time::Instant;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Judgment, Request, Store, Whole};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Cost, Key, Nanos, Plan, Rules, Timestamp};
use ratekeeper_redis::EnvoyproxyStore;
use redis::Commands;

use crate::store::patient;
use test_support::charging::{charge, charge_overlapping_keys_under};
use test_support::redis::server::Server;
use test_support::wait::PATIENCE;

fn store(server: &Server, clock: &FakeClock) -> EnvoyproxyStore {
    EnvoyproxyStore::new(patient(&server.url()).build().unwrap()).clock(clock.clone())
}

fn keys(connection: &mut redis::Connection) -> Vec<String> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort();
    keys
}

fn told(judgment: &Judgment) -> Vec<(bool, u64, u64)> {
    let tell = |decision: ratekeeper::Decision| {
        (decision.allowed, decision.remaining, decision.reset_after.ceil_secs())
    };
    judgment.each.iter().map(|told| tell(told.decision)).collect()
}

/// The names that the tests of that service expect.
#[tokio::test]
async fn names_are_those_of_the_other_service() {
    let server = Server::redis();
    let mut connection = server.connection();
    let cases = [
        (1_234, "", "10/s fixed grid", "domain_key_value_", "domain_key_value_1234", 1),
        (1_234, "prefix:", "10/s fixed grid", "domain_key_value_", "prefix:domain_key_value_1234", 1),
        (
            1_234,
            "",
            "10/m fixed grid",
            "domain_key2_value2_subkey2_subvalue2_",
            "domain_key2_value2_subkey2_subvalue2_1200",
            60,
        ),
        (1_000_000, "", "10/h fixed grid", "domain_key3_value3_", "domain_key3_value3_997200", 3_600),
        (1_000_000, "", "10/day fixed grid", "domain_key3_value3_", "domain_key3_value3_950400", 86_400),
        (1_234, "", "10/s fixed grid", "domain_files_files/*_", "domain_files_files/*_1234", 1),
        (1_700_000_000, "", "10/week fixed grid", "d_k_v_", "d_k_v_1699488000", 604_800),
        (1_700_000_000, "", "10 per 30day fixed grid", "d_k_v_", "d_k_v_1697760000", 2_592_000),
        (1_700_000_000, "", "10 per 365day fixed grid", "d_k_v_", "d_k_v_1671408000", 31_536_000),
    ];
    for (now, prefix, limit, key, expected, length) in cases {
        let clock = FakeClock::at(Timestamp::from_secs(now));
        let store = store(&server, &clock).prefix(prefix);
        let plan = Plan::parse("rls", limit).unwrap();
        let until = length - now.cast_unsigned() % length;
        let deadline = Instant::now() + PATIENCE;
        let (names, count, left) = loop {
            redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
            let charges = [charge(key, &plan, 3, ChargeAction::Count)];
            let judgment = store.charge(&charges, Whole::Open).await.unwrap();
            assert_eq!(told(&judgment), [(true, 7, until)], "{expected}");
            let names = keys(&mut connection);
            let count: Option<String> = connection.get(expected).unwrap();
            let left: i64 = connection.ttl(expected).unwrap();
            // On a busy machine, a key of one second may expire before it is read: then once more.
            if left > 0 || length > 1 {
                break (names, count, left);
            }
            assert!(Instant::now() < deadline, "{expected}: {names:?}, {count:?}, kept for {left} s");
        };
        assert_eq!(names, [expected]);
        assert_eq!(count.as_deref(), Some("3"), "{expected}");
        // The test may take some of it.
        let least = length.saturating_sub(600).max(1);
        let is_kept = u64::try_from(left).is_ok_and(|left| (least..=length).contains(&left));
        assert!(is_kept, "{expected}: kept for {left} s");
    }
}

/// Both services count in one counter; refused hits count, a look does not, and what is given back is never more than there was.
#[tokio::test]
async fn both_services_count_in_one_counter() {
    for server in Server::each() {
        let mut connection = server.connection();
        let clock = FakeClock::at(Timestamp::from_secs(1_234));
        let store = store(&server, &clock);
        let plan = Plan::parse("rls", "minute=10/m fixed grid").unwrap();
        let ask = async |cost, action| {
            let judgment = store.charge(&[charge("d_k_v_", &plan, cost, action)], Whole::Open).await.unwrap();
            let told = &judgment.each[0];
            (told.decision.allowed, told.decision.remaining, told.left_before)
        };
        assert_eq!(ask(4, ChargeAction::Count).await, (true, 6, 10));
        let () = connection.incr("d_k_v_1200", 5).unwrap();
        assert_eq!(ask(0, ChargeAction::Count).await, (true, 1, 1), "a look");
        assert_eq!(ask(1, ChargeAction::Count).await, (true, 0, 1));
        assert_eq!(ask(0, ChargeAction::Count).await, (true, 0, 0), "not beyond");
        assert_eq!(ask(2, ChargeAction::Count).await, (false, 0, 0));
        assert_eq!(ask(0, ChargeAction::Count).await, (false, 0, 0), "beyond");
        assert_eq!(connection.get::<_, i64>("d_k_v_1200").unwrap(), 12);
        assert_eq!(ask(5, ChargeAction::GiveBack).await, (true, 3, 0));
        assert_eq!(ask(50, ChargeAction::GiveBack).await, (true, 10, 3));
        assert_eq!(connection.get::<_, i64>("d_k_v_1200").unwrap(), 0, "never below zero");
        let () = connection.decr("d_k_v_1200", 7).unwrap();
        assert_eq!(
            ask(1, ChargeAction::Count).await,
            (true, 10, 10),
            "what the other one has minted is gone"
        );
        for _ in 0..3 {
            assert!(!ask(u64::MAX, ChargeAction::Count).await.0, "saturates");
        }
        assert_eq!(connection.get::<_, i64>("d_k_v_1200").unwrap(), i64::MAX);
        clock.advance(Nanos::from_secs(26));
        assert_eq!(ask(1, ChargeAction::Count).await, (true, 9, 10), "the next window");
        assert_eq!(keys(&mut connection), ["d_k_v_1200", "d_k_v_1260"]);
        let request = charge("d_k_v_", &plan, 0, ChargeAction::Count).request;
        assert_eq!(store.reset(request).await.unwrap(), 1);
        assert_eq!(keys(&mut connection)[0], "d_k_v_1200", "of now alone");
    }
}

/// What is ignored when it does not pass was counted elsewhere, and what was given back to it here: the two services shared
/// nothing.
#[tokio::test]
async fn what_is_ignored_is_counted_in_the_same_counter() {
    for server in Server::each() {
        let mut connection = server.connection();
        let store = store(&server, &FakeClock::at(Timestamp::from_secs(1_234)));
        let plan = Plan::parse("rls", "minute=10/m fixed grid").unwrap();
        let ask = async |cost, action, whole| {
            let judgment = store.charge(&[charge("d_k_v_", &plan, cost, action)], whole).await.unwrap();
            let told = &judgment.each[0];
            (told.decision.allowed, told.decision.remaining, told.left_before)
        };
        use ChargeAction::{Count, GiveBack, Ignore};
        assert_eq!(ask(4, Ignore, Whole::Open).await, (true, 6, 10));
        let () = connection.incr("d_k_v_1200", 3).unwrap();
        assert_eq!(ask(4, Ignore, Whole::Open).await, (false, 3, 3), "over, and not counted");
        assert_eq!(ask(3, Ignore, Whole::Refused).await, (true, 3, 3), "nothing of a refused whole");
        assert_eq!(ask(0, Ignore, Whole::Open).await, (true, 3, 3));
        assert_eq!(ask(3, Ignore, Whole::Passes).await, (true, 0, 3));
        assert_eq!(ask(0, Ignore, Whole::Open).await, (false, 0, 0), "one would not pass");
        assert_eq!(ask(0, Count, Whole::Open).await, (true, 0, 0), "not beyond");
        assert_eq!(ask(2, GiveBack, Whole::Open).await, (true, 2, 0));
        assert_eq!(connection.get::<_, i64>("d_k_v_1200").unwrap(), 8);
        assert_eq!(ask(2, Ignore, Whole::Open).await, (true, 0, 2));
        assert_eq!(keys(&mut connection), ["d_k_v_1200"]);
    }
}

/// Several counters of one request, and what else it is charged for: all or nothing.
#[tokio::test]
async fn several_counters_are_charged_together_or_not_at_all() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = store(&server, &FakeClock::at(Timestamp::from_secs(1_234)));
    let (wide, narrow) =
        (Plan::parse("rls", "9/m fixed grid").unwrap(), Plan::parse("n", "2/m fixed grid").unwrap());
    let smooth = Plan::parse("g", "9/day").unwrap();
    let all = [
        charge("d_wide_v_", &wide, 1, ChargeAction::Ignore),
        charge("d_narrow_v_", &narrow, 1, ChargeAction::Ignore),
        charge("d|smooth=v", &smooth, 1, ChargeAction::Ignore),
        charge("d_counted_v_", &wide, 1, ChargeAction::Count),
    ];
    let left = |judgment: &Judgment| -> Vec<u64> {
        judgment.each.iter().map(|told| told.decision.remaining).collect()
    };
    let mut passed = Vec::new();
    for _ in 0..4 {
        let judgment = store.charge(&all, Whole::Open).await.unwrap();
        passed.push((judgment.passes, left(&judgment)));
    }
    let expected = [
        (true, vec![8, 1, 8, 8]),
        (true, vec![7, 0, 7, 7]),
        (false, vec![7, 0, 7, 6]),
        (false, vec![7, 0, 7, 5]),
    ];
    assert_eq!(passed, expected);
    assert_eq!(connection.get::<_, i64>("d_wide_v_1200").unwrap(), 2);
    assert_eq!(connection.get::<_, i64>("d_counted_v_1200").unwrap(), 4);
    // Each on top of those before it.
    let twins = [charge("d_twin_v_", &narrow, 1, ChargeAction::Ignore); 3];
    let judgment = store.charge(&twins, Whole::Open).await.unwrap();
    let allowed: Vec<bool> = judgment.each.iter().map(|told| told.decision.allowed).collect();
    assert_eq!((judgment.passes, allowed), (false, vec![true, true, false]));
    assert!(store.charge(&twins[..2], Whole::Open).await.unwrap().passes, "nothing was taken");
    // Refused by the inner store: no counter is.
    let spent = [all[0], charge("d|smooth=v", &smooth, 9, ChargeAction::Ignore)];
    assert!(!store.charge(&spent, Whole::Open).await.unwrap().passes);
    assert_eq!(connection.get::<_, i64>("d_wide_v_1200").unwrap(), 2);
}

/// 64 tasks take of counters that overlap: of none more than allowed, and what the late ones had taken is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_ignore_counters_that_overlap() {
    let server = Server::redis();
    let clock = FakeClock::at(Timestamp::from_secs(1_234));
    let stores: Vec<EnvoyproxyStore> = (0..4).map(|_| store(&server, &clock)).collect();
    charge_overlapping_keys_under(&stores, "day=60/day fixed grid").await;
}

/// A look wrote a counter, and one that was there lived on.
#[tokio::test]
async fn a_look_writes_nothing() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = store(&server, &FakeClock::at(Timestamp::from_secs(1_234)));
    let plan = Plan::parse("rls", "minute=10/m fixed grid").unwrap();
    for is_known in [false, true] {
        if is_known {
            let () = connection.set_ex("d_k_v_1200", 4, 1_000).unwrap();
        }
        for action in [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack] {
            let looks = [charge("d_k_v_", &plan, 0, action), charge("d_other_v_", &plan, 0, action)];
            let judgment = store.charge(&looks, Whole::Open).await.unwrap();
            assert_eq!(judgment.each[0].decision.remaining, if is_known { 6 } else { 10 }, "{action:?}");
            assert_eq!(keys(&mut connection).len(), usize::from(is_known), "{action:?}");
        }
    }
    assert!(connection.ttl::<_, u64>("d_k_v_1200").unwrap() > 900, "kept as long as before");
}

/// Equal descriptors of one request are counted one after another.
#[tokio::test]
async fn one_counter_is_counted_in_order() {
    let server = Server::redis();
    let store = store(&server, &FakeClock::at(Timestamp::from_secs(1_234)));
    let plan = Plan::parse("rls", "minute=10/m fixed grid").unwrap();
    let both = [3, 8, 0].map(|cost| charge("d_k_v_", &plan, cost, ChargeAction::Count));
    let judgment = store.charge(&both, Whole::Open).await.unwrap();
    assert_eq!(told(&judgment), [(true, 7, 26), (false, 0, 26), (false, 0, 26)]);
}

/// Everything else is the inner store's, and both pass or are refused together.
#[tokio::test]
async fn all_else_is_judged_with_the_counters() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = store(&server, &FakeClock::at(Timestamp::from_secs(1_234)));
    // Long periods: nothing refills, and no key expires while the test runs.
    let window = Plan::parse("rls", "2/day fixed grid").unwrap();
    let smooth = Plan::parse("g", "9/day").unwrap();
    let shadow = Plan::with_shadow("s", Vec::<&str>::new(), ["1/day fixed grid"]).unwrap();
    let odd = Plan::parse("odd", "1 per 8640500ms fixed grid").unwrap();
    let pair = |force: [ChargeForce; 2]| {
        let counted = charge("d_k_v_", &window, 1, ChargeAction::Count);
        let ignored = charge("d|k=v", &smooth, 1, ChargeAction::Ignore);
        [Charge { force: force[0], ..counted }, Charge { force: force[1], ..ignored }]
    };
    use ChargeForce::{Alone, Never, Together};
    // Counted: 1, 2 within, then over.
    let expected = [
        (pair([Alone, Alone]), true, 8),
        (pair([Alone, Alone]), true, 7),
        (pair([Alone, Alone]), false, 7),
        (pair([Never, Alone]), true, 6),
        (pair([Together, Together]), true, 5),
        (pair([Together, Never]), false, 5),
    ];
    for (place, (charges, passes, left)) in expected.into_iter().enumerate() {
        let judgment = store.charge(&charges, Whole::Open).await.unwrap();
        assert_eq!((judgment.passes, judgment.each[1].decision.remaining), (passes, left), "{place}");
        assert_eq!(judgment.each[0].decision.allowed, place < 2, "{place}");
    }
    for (whole, left) in [(Whole::Refused, 5), (Whole::Passes, 4)] {
        let judgment = store.charge(&pair([Alone, Alone]), whole).await.unwrap();
        assert_eq!(judgment.passes, whole == Whole::Passes);
        assert_eq!(judgment.each[1].decision.remaining, left, "{whole:?}");
    }
    // All of the inner store's that refuse together are over, one counter is not: it passes.
    let other = charge("d_other_v_", &window, 1, ChargeAction::Count);
    let spent = charge("spent", &smooth, 10, ChargeAction::Ignore);
    let both = [other, spent].map(|one| Charge { force: Together, ..one });
    let judgment = store.charge(&both, Whole::Open).await.unwrap();
    assert!(judgment.passes && !judgment.each[1].decision.allowed);
    // Not a counter's: nothing is written under a name of that service.
    let before = keys(&mut connection).len();
    for plan in [&smooth, &shadow, &odd] {
        assert!(!EnvoyproxyStore::is_counter(Rules::Plan(plan)));
        store.charge(&[charge("x_", plan, 1, ChargeAction::Count)], Whole::Open).await.unwrap();
    }
    assert!(EnvoyproxyStore::is_counter(Rules::Plan(&window)));
    let names = keys(&mut connection);
    assert_eq!(names.len(), before + 3);
    assert!(names.iter().all(|name| !name.starts_with("x_")), "{names:?}");
    let request = Request::new(Key::new("d_k_v_").unwrap(), Rules::Plan(&window), Cost::ONE);
    assert_eq!(store.acquire(request).await.unwrap().remaining, 1, "the other verbs know no counters");
}
