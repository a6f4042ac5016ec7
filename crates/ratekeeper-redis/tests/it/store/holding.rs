//! Holds on real servers: made here and ended there, by many at once, and nothing of them stays behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper::port::{HoldAction, HoldId, HoldRequest, HoldState, Store};
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Key, Nanos, OnLapse, Plan, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};

use test_support::holding::Held;
use test_support::redis::one_unless_thorough;
use test_support::redis::server::Server;

const MINUTE: Nanos = Nanos::from_secs(60);
/// A lease that outlasts the test by the server's clock.
const HOUR: Nanos = Nanos::from_secs(3_600);

async fn store(server: &Server, encoding: Encoding) -> RedisStore {
    crate::store::patient(&server.url()).encoding(encoding).connect().await.unwrap()
}

#[tokio::test]
async fn what_one_instance_holds_another_ends() {
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let (here, there) = (store(&server, encoding).await, store(&server, encoding).await);
            let held =
                Held::new(&format!("{encoding:?}"), "60/m; 1000 tokens per 100day burst 1000; 2 concurrent");
            assert!(held.hold(&here, 1, 600, HOUR).await.unwrap().decision.allowed);
            assert!(held.hold(&there, 2, 300, HOUR).await.unwrap().decision.allowed);
            assert!(!held.hold(&here, 3, 1, HOUR).await.unwrap().decision.allowed, "two are in flight");
            let settled = held.settle(&there, 1, 100).await.unwrap();
            assert_eq!(settled.state, HoldState::Settled);
            let key = ratekeeper::Key::new(&held.key).unwrap();
            let seen = here.inspect_holds(key).await.unwrap();
            let ended: Vec<_> = seen.holds.iter().map(|hold| (hold.id.bits(), hold.ended)).collect();
            assert_eq!(ended, [(1, Some(HoldState::Settled)), (2, None)]);
            assert_eq!(seen.holds[1].plans, ["llm"]);
            assert!(seen.holds[1].since <= seen.now && seen.now < seen.holds[1].lease_end);
            let rules = held.plans[0].rules().iter().map(|rule| rule.id().as_u64());
            let mut expected: Vec<_> = rules.zip([1, 300, 1]).collect();
            assert_eq!(seen.holds[1].amounts, expected);
            expected.sort_unstable();
            assert_eq!(seen.in_flight, expected);
            assert_eq!(held.left(&here).await.unwrap()[1..], [600, 1]);
            // Again, by either of them, and by a third that has seen neither.
            let third = store(&server, encoding).await;
            for again in [&here, &there, &third] {
                let outcome = held.settle(again, 1, 900).await.unwrap();
                assert_eq!(outcome.state, HoldState::Settled);
                let [first, then] =
                    [&settled, &outcome].map(|outcome| outcome.standing.as_ref().unwrap().decision);
                assert_eq!(first, then);
            }
            assert_eq!(held.left(&here).await.unwrap()[1..], [600, 1], "once and no more");
            let extended = held.change(&third, 2, HoldAction::Extend(HOUR)).await.unwrap();
            assert_eq!(extended.state, HoldState::Extended);
            assert_eq!(held.change(&here, 2, HoldAction::Cancel).await.unwrap().state, HoldState::Cancelled);
            assert_eq!(held.left(&there).await.unwrap()[1..], [900, 2]);
            assert_eq!(held.settle(&there, 9, 1).await.unwrap().state, HoldState::Gone);
        }
    }
}

/// Another key may have a hold of the same id, under other plans, made by the same instance.
#[tokio::test]
async fn an_id_belongs_to_its_key() {
    for server in Server::each() {
        let store = store(&server, Encoding::Ascii).await;
        let held = Held::new("a", "1000 tokens per 100day burst 1000");
        assert!(held.hold(&store, 1, 100, HOUR).await.unwrap().decision.allowed);
        let plans = [Arc::new(Plan::parse("web", "60/m").unwrap())];
        let (key, id) = (Key::new("b").unwrap(), HoldId::from_bits(1));
        let other = HoldRequest { key, plans: &plans, amounts: Amounts::UNSAID, id, lease: HOUR };
        assert!(store.hold(other).await.unwrap().decision.allowed);
        let settled = held.settle(&store, 1, 5).await.unwrap();
        assert_eq!((settled.state, &settled.plans), (HoldState::Settled, &held.plans));
        assert_eq!(held.left(&store).await.unwrap(), [995]);
        let web = Held { plans: plans.to_vec(), key: "b".to_owned() };
        let cancelled = web.change(&store, 1, HoldAction::Cancel).await.unwrap();
        assert_eq!((cancelled.state, &cancelled.plans), (HoldState::Cancelled, &web.plans));
    }
}

/// What was told then cannot be read by the algorithm of now: it is answered as the key stands.
#[tokio::test]
async fn what_has_ended_is_answered_again_after_the_algorithm_has_changed() {
    const WORDS: [&str; 6] = ["", " bucket", " leaky", " fixed", " sliding", " log"];
    let server = Server::redis();
    for encoding in [Encoding::Ascii, Encoding::Binary] {
        let (here, there) = (store(&server, encoding).await, store(&server, encoding).await);
        for (id, (then, now)) in (0_u128..).zip(WORDS.iter().flat_map(|then| WORDS.map(|now| (then, now)))) {
            let what = format!("{encoding:?}:{then}:{now}");
            let key = format!("{encoding:?}{id}");
            let first = Held::new(&key, &format!("1000 tokens/day{then}; 2 concurrent"));
            assert!(first.hold(&here, id, 600, HOUR).await.unwrap().decision.allowed);
            assert_eq!(first.settle(&here, id, 100).await.unwrap().state, HoldState::Settled);
            let second = Held::new(&key, &format!("1000 tokens/day{now}; 2 concurrent"));
            for again in [&here, &there] {
                let outcome = second.settle(again, id, 100).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!((outcome.state, &outcome.plans), (HoldState::Settled, &second.plans), "{what}");
                assert!(outcome.standing.unwrap().decision.allowed, "{what}");
            }
        }
    }
}

/// Every hold has ended or its lease has: what is spent is what was settled, to the token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_hold_at_once_on_several_instances() {
    const INSTANCES: usize = 4;
    const CALLERS: u64 = 64;
    const QUOTA: u64 = 100_000;
    for server in Server::each() {
        let mut stores = Vec::new();
        for _ in 0..INSTANCES {
            stores.push(store(&server, Encoding::Ascii).await);
        }
        // Nothing comes back while the test runs, but by settling; a debt is at most the quota again.
        let held = Arc::new(Held::new("who", "100000 tokens per 10000day; 40 concurrent"));
        let (spent, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let first = usize::try_from(caller).unwrap();
                let stores = [0, 1].map(|next| stores[(first + next) % INSTANCES].clone());
                let (held, spent, most) = (Arc::clone(&held), Arc::clone(&spent), Arc::clone(&most));
                tokio::spawn(async move {
                    for round in 0..20_u64 {
                        let id = u128::from(caller << 32 | round);
                        let estimate = 500 + (caller * 7 + round * 13) % 500;
                        let answer = held.hold(&stores[0], id, estimate, HOUR).await.unwrap();
                        if !answer.decision.allowed {
                            continue;
                        }
                        // More than estimated, less, nothing at all: by another instance than the one that made it.
                        let actual = match round % 3 {
                            0 => estimate / 3,
                            1 => estimate + 40,
                            _ => 0,
                        };
                        let action = if actual == 0 { Some(HoldAction::Cancel) } else { None };
                        let outcome = match action {
                            Some(action) => held.change(&stores[1], id, action).await.unwrap(),
                            None => held.settle(&stores[1], id, actual).await.unwrap(),
                        };
                        assert!(outcome.state != HoldState::Gone);
                        spent.fetch_add(actual, Ordering::SeqCst);
                        most.fetch_max(actual, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        let (spent, most) = (spent.load(Ordering::SeqCst), most.load(Ordering::SeqCst));
        assert!(spent <= QUOTA + 40 * most, "{spent} spent of {QUOTA}");
        let left = held.left(&stores[0]).await.unwrap();
        assert_eq!(left[1], 40, "all places are free");
        assert_eq!(left[0], QUOTA.saturating_sub(spent), "{spent} spent");
    }
}

#[tokio::test]
async fn what_is_held_expires_by_itself() {
    for server in Server::each() {
        let store = store(&server, Encoding::Ascii).await;
        let held = Held::new("who", "60/h; 1000 tokens/h; 2 concurrent");
        assert!(held.hold(&store, 1, 10, Nanos::from_millis(1)).await.unwrap().decision.allowed);
        let mut connection = server.connection();
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        assert_eq!(keys.len(), 3, "{keys:?}");
        for key in keys {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
            assert!((1..=180_000).contains(&left), "{key}: {left}");
        }
        crate::store::eventually("the lease has run out", async || held.left(&store).await.unwrap()[2] == 2)
            .await;
        assert_eq!(held.settle(&store, 1, 1).await.unwrap().state, HoldState::Gone);
        // A longer lease keeps what is remembered for longer.
        assert!(held.hold(&store, 2, 10, Nanos::from_secs(3_600)).await.unwrap().decision.allowed);
        let left: i64 = redis::cmd("PTTL").arg("rate_limiter:{who}%holds").query(&mut connection).unwrap();
        assert!(left > 3_600_000, "{left}");
        assert!(store.forget(b"who").await.unwrap() > 0);
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        assert_eq!(keys, Vec::<String>::new());
        assert_eq!(held.settle(&store, 2, 1).await.unwrap().state, HoldState::Gone);
    }
}

/// A minute of 64 callers on four instances, counted by the second. In no span is more spent than the quota lets pass and what
/// those in flight took beyond their estimates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_many_callers_keeps_to_the_quota_by_the_second() {
    const INSTANCES: usize = 4;
    const CALLERS: usize = 64;
    const SECONDS: usize = 60;
    const RATE: usize = 50;
    const BURST: usize = 500;
    const PLACES: usize = 16;
    for server in one_unless_thorough(Server::each()) {
        let clock = FakeClock::at(Timestamp::from_secs(1_761_912_000));
        let mut stores = Vec::new();
        for _ in 0..INSTANCES {
            let store =
                crate::store::patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
            stores.push(store);
        }
        let held = Arc::new(Held::new("who", "3000 tokens/m burst 500; 16 concurrent"));
        let (mut spent, mut most_beyond) = (Vec::new(), 0);
        for second in 0..SECONDS {
            let callers: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let stores = [0, 1].map(|next| stores[(caller + next) % INSTANCES].clone());
                    let held = Arc::clone(&held);
                    tokio::spawn(async move {
                        let id = u128::try_from(second << 32 | caller).unwrap();
                        let estimate = 5 + (caller * 7 + second * 13) % 40;
                        let answer = held.hold(&stores[0], id, estimate as u64, MINUTE).await.unwrap();
                        if !answer.decision.allowed {
                            return (0, 0);
                        }
                        let actual =
                            [0, estimate / 3, estimate, estimate + estimate / 2][(caller + second) % 4];
                        let outcome = held.settle(&stores[1], id, actual as u64).await.unwrap();
                        assert_eq!(outcome.state, HoldState::Settled);
                        (actual, actual.saturating_sub(estimate))
                    })
                })
                .collect();
            let mut of_second = 0;
            for caller in callers {
                let (actual, beyond) = caller.await.unwrap();
                of_second += actual;
                most_beyond = most_beyond.max(beyond);
            }
            spent.push(of_second);
            clock.advance(Nanos::from_secs(1));
        }
        for first in 0..SECONDS {
            let mut of_span = 0;
            for last in first..SECONDS {
                of_span += spent[last];
                let most = BURST + RATE * (last - first) + PLACES * most_beyond;
                assert!(of_span <= most, "{of_span} of {most} from second {first} to {last}: {spent:?}");
            }
        }
        let all: usize = spent.iter().sum();
        assert!(all * 10 >= (BURST + RATE * (SECONDS - 1)) * 9, "{all} used: {spent:?}");
        assert_eq!(held.left(&stores[0]).await.unwrap()[1], PLACES as u64, "all places are free");
    }
}

/// No call frees more than a thousand leases; those that wait still count.
#[tokio::test]
async fn many_leases_that_run_out_at_once_are_freed_in_parts() {
    let server = Server::redis();
    let clock = FakeClock::at(Timestamp::from_secs(1_761_912_000));
    let store = crate::store::patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let held = Held::new("who", "1000000 tokens/day; 1500 concurrent");
    for id in 0..1_500 {
        assert!(held.hold(&store, id, 1, MINUTE).await.unwrap().decision.allowed);
    }
    assert!(!held.hold(&store, 1_500, 1, MINUTE).await.unwrap().decision.allowed);
    clock.advance(MINUTE);
    let mut free = Vec::new();
    for _ in 0..2 {
        free.push(held.left(&store).await.unwrap()[1]);
    }
    assert_eq!(free, [1_000, 1_500]);
}

/// What is to be given back of many leases is written down at once: one call for each took a third of a second.
#[tokio::test]
async fn what_many_leases_give_back_is_noted_at_once() {
    let server = Server::redis();
    let clock = FakeClock::at(Timestamp::from_secs(1_761_912_000));
    let store = crate::store::patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let plan = Plan::parse("llm", "1000000 tokens/day; 1000 concurrent").unwrap();
    let held = Held { plans: vec![plan.on_lapse(OnLapse::Refund).into()], key: "who".to_owned() };
    for id in 0..1_000 {
        assert!(held.hold(&store, id, 1, MINUTE).await.unwrap().decision.allowed);
    }
    clock.advance(MINUTE);
    let written = || -> u64 {
        let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hset:calls=")).unwrap();
        calls.split(',').next().unwrap().parse().unwrap()
    };
    let before = written();
    assert_eq!(held.left(&store).await.unwrap()[1], 1_000);
    // Notes, sums and head of the lapse, and one note less for each of those that this call gives back.
    assert!(written() - before <= 24, "{} calls", written() - before);
}

#[tokio::test]
async fn a_server_that_has_forgotten_its_scripts_is_sent_them_again() {
    for server in Server::each() {
        let store = store(&server, Encoding::Ascii).await;
        let held = Held::new("who", "60/m; 1000 tokens per 100day burst 1000; 2 concurrent");
        let flush = || redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
        flush();
        assert!(held.hold(&store, 1, 600, HOUR).await.unwrap().decision.allowed);
        flush();
        assert_eq!(
            held.change(&store, 1, HoldAction::Extend(HOUR)).await.unwrap().state,
            HoldState::Extended
        );
        flush();
        assert_eq!(held.settle(&store, 1, 100).await.unwrap().state, HoldState::Settled);
        flush();
        assert_eq!(held.left(&store).await.unwrap()[1..], [900, 2]);
    }
}

/// A settle that got no answer may have been done or not: said again, it is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_got_no_answer_is_said_again() {
    for server in Server::each() {
        let patient = store(&server, Encoding::Ascii).await;
        let hasty = crate::store::patient(&server.url()).without_breaker();
        let hasty = hasty.command_timeout(Duration::from_secs(1)).build().unwrap();
        let held = Held::new("who", "60/m; 1000 tokens per 100day burst 1000; 8 concurrent");
        for (id, spent, left) in [(1, Some(30), 970), (2, None, 970), (3, Some(200), 770)] {
            assert!(held.hold(&patient, id, 100, HOUR).await.unwrap().decision.allowed);
            server.freeze();
            let end = async || match spent {
                Some(tokens) => held.settle(&hasty, id, tokens).await,
                None => held.change(&hasty, id, HoldAction::Cancel).await,
            };
            assert!(end().await.is_err(), "it is frozen");
            server.thaw();
            crate::store::eventually("it is ended", async || end().await.is_ok()).await;
            let found = held.left(&patient).await.unwrap();
            assert_eq!(found[1..], [left, 8], "{id}");
        }
    }
}

/// What has ended is forgotten in time, however many there were.
#[tokio::test]
async fn what_has_ended_is_forgotten() {
    let server = Server::redis();
    let clock = FakeClock::at(Timestamp::from_secs(1_761_912_000));
    let store = crate::store::patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let held = Held::new("who", "1000000 tokens/day; 8 concurrent");
    let mut connection = server.connection();
    let mut remembered =
        || -> u64 { redis::cmd("ZCARD").arg("rate_limiter:{who}%leases").query(&mut connection).unwrap() };
    for id in 0..1_200 {
        assert!(held.hold(&store, id, 1, MINUTE).await.unwrap().decision.allowed);
        assert_eq!(held.settle(&store, id, 1).await.unwrap().state, HoldState::Settled);
    }
    assert_eq!(remembered(), 1_200);
    clock.advance(Nanos::from_secs(120));
    for left in [201, 2] {
        let id = 10_000 + u128::from(remembered());
        assert!(held.hold(&store, id, 1, MINUTE).await.unwrap().decision.allowed);
        assert_eq!(remembered(), left);
    }
    assert_eq!(held.settle(&store, 7, 1).await.unwrap().state, HoldState::Gone);
}
