//! Charges of several keys that are judged together, on real servers.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Judgment, Request, Store, Whole};
use ratekeeper::state::OnUnreadable;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Charged, Key, Nanos, OnLapse, Plan, Rules, StoreErrorKind, Timestamp};
use ratekeeper_redis::{Encoding, RedisStore};
use redis::Commands;

use crate::store::{eventually, patient};
use test_support::charging::{charge, charge_overlapping_keys};
use test_support::holding::Held;
use test_support::redis::server::Server;

const NOW: Timestamp = Timestamp::from_nanos(1_761_884_055_342_794_000);

/// Returns how often a command was sent since the last time that this was asked.
fn sent(connection: &mut redis::Connection, command: &str) -> u64 {
    // In one step: a call between the two would be counted nowhere.
    let mut both = redis::pipe();
    both.atomic().cmd("INFO").arg("commandstats").cmd("CONFIG").arg("RESETSTAT").ignore();
    let (stats,): (String,) = both.query(connection).unwrap();
    let calls = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

/// Returns what each has left, or none if it is over.
fn told(judgment: &Judgment) -> Vec<Option<u64>> {
    let left = |decision: ratekeeper::Decision| decision.allowed.then_some(decision.remaining);
    judgment.each.iter().map(|told| left(told.decision)).collect()
}

/// Four descriptors of one request, and eight of them, are one `EVALSHA`; nine are two, after two looks if it must be known
/// before whether all of them pass.
#[tokio::test]
async fn one_call_charges_eight_keys() {
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let mut connection = server.connection();
            let prefix = format!("{encoding:?}");
            let store = patient(&server.url()).encoding(encoding).prefix(prefix).connect().await.unwrap();
            let plan = Plan::parse("rls", "minute=100000/m fixed grid").unwrap();
            let keys: Vec<String> = (0..9).map(|key| format!("edge|user={key}")).collect();
            for (count, calls) in [(1, [1, 1]), (4, [1, 1]), (8, [1, 1]), (9, [2, 4])] {
                for (action, calls) in [ChargeAction::Count, ChargeAction::Ignore].into_iter().zip(calls) {
                    let charges: Vec<_> =
                        keys[..count].iter().map(|key| charge(key, &plan, 1, action)).collect();
                    // The server learns the scripts.
                    store.charge(&charges, Whole::Open).await.unwrap();
                    sent(&mut connection, "evalsha");
                    let judgment = store.charge(&charges, Whole::Open).await.unwrap();
                    assert!(judgment.passes && judgment.each.len() == count);
                    assert_eq!(sent(&mut connection, "evalsha"), calls, "{count} charges, {action:?}");
                }
            }
            // Whoever counts and whoever ignores, in whichever order: the same script.
            let mixed: Vec<_> = (0..8)
                .map(|key| {
                    let action = [ChargeAction::Count, ChargeAction::Ignore, ChargeAction::GiveBack][key % 3];
                    charge(&keys[7 - key], &plan, u64::from(key != 4), action)
                })
                .collect();
            store.charge(&mixed, Whole::Open).await.unwrap();
            assert_eq!((sent(&mut connection, "evalsha"), sent(&mut connection, "eval")), (1, 0));
        }
    }
}

/// 64 tasks on 4 instances charge keys that overlap: never is more admitted than allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_charge_keys_that_overlap() {
    for server in Server::each() {
        for encoding in [Encoding::Ascii, Encoding::Binary] {
            let builder = || patient(&server.url()).encoding(encoding).prefix(format!("{encoding:?}"));
            let stores: Vec<RedisStore> = (0..4).map(|_| builder().build().unwrap()).collect();
            charge_overlapping_keys(&stores).await;
        }
    }
}

/// More charges than one script judges, some of them of one key: refused by the last one, nothing of the others stays.
#[tokio::test]
async fn what_several_calls_have_taken_is_given_back() {
    let server = Server::redis();
    for text in ["5/h", "5/h bucket", "5/h leaky", "5/h fixed", "5/day fixed grid", "5/h sliding", "5/h log"]
    {
        let clock = FakeClock::at(NOW);
        let store = patient(&server.url()).prefix(text).time_from(clock.clone()).connect().await.unwrap();
        let (plan, spent) = (Plan::parse("p", text).unwrap(), Plan::parse("spent", "1/day fixed").unwrap());
        let keys: Vec<String> = (0..20).map(|key| format!("key {key}")).collect();
        let mut charges: Vec<_> =
            keys.iter().map(|key| charge(key, &plan, 2, ChargeAction::Ignore)).collect();
        charges.insert(3, charge("counted", &plan, 2, ChargeAction::Count));
        // Twice the same: the second comes after everything else, and is over.
        charges.extend([1, 1].map(|cost| charge("spent", &spent, cost, ChargeAction::Ignore)));
        let judgment = store.charge(&charges, Whole::Open).await.unwrap();
        assert!(!judgment.passes, "{text}");
        let mut expected = vec![Some(5); 23];
        (expected[3], expected[21], expected[22]) = (Some(3), Some(1), None);
        assert_eq!(told(&judgment), expected, "{text}");
        let looks = charges.iter().map(|one| Charge { request: one.request.at_cost(0.into()), ..*one });
        let looks: Vec<_> = looks.collect();
        expected[22] = Some(1);
        assert_eq!(told(&store.charge(&looks, Whole::Open).await.unwrap()), expected, "{text}: for good");
        let judgment = store.charge(&charges[..22], Whole::Open).await.unwrap();
        assert!(judgment.passes, "{text}");
        assert!(told(&judgment)[..3].iter().all(|left| *left == Some(3)), "{text}");
    }
}

/// Returns how often anything was written since the server began.
fn written(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("persistence").query(connection).unwrap();
    let count = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    count.unwrap().trim().parse().unwrap()
}

/// A whole that was always refused took its keys and gave them back, and who looked at them meanwhile was refused for nothing.
#[tokio::test]
async fn others_see_nothing_of_a_whole_that_is_refused() {
    for server in Server::each() {
        let mut connection = server.connection();
        let store = patient(&server.url()).connect().await.unwrap();
        let plan = Plan::parse("p", "1/day fixed").unwrap();
        let keys: Vec<String> = (0..24).map(|key| format!("key {key}")).collect();
        let full = charge("full", &plan, 1, ChargeAction::Ignore);
        assert!(store.charge(&[full], Whole::Open).await.unwrap().passes);
        let mut charges: Vec<_> =
            keys.iter().map(|key| charge(key, &plan, 1, ChargeAction::Ignore)).collect();
        charges.push(full);
        let before = written(&mut connection);
        for _ in 0..3 {
            let judgment = store.charge(&charges, Whole::Open).await.unwrap();
            assert!(!judgment.passes);
            let left = told(&judgment);
            assert!(left[..24].iter().all(|left| *left == Some(1)) && left[24].is_none(), "{left:?}");
        }
        assert_eq!(written(&mut connection), before, "nothing was taken, nothing given back");
        // What counts in any case is counted, and nothing else.
        charges.push(charge("counted", &plan, 1, ChargeAction::Count));
        assert!(!store.charge(&charges, Whole::Open).await.unwrap().passes);
        assert_eq!(written(&mut connection), before + 1);
    }
}

/// Who gave up between two calls left for good what the first had taken.
#[tokio::test]
async fn who_gives_up_leaves_nothing_behind() {
    let server = Server::redis();
    let mut connection = server.connection();
    let store = patient(&server.url()).connect().await.unwrap();
    let plan = Plan::parse("p", "5/day fixed").unwrap();
    let keys: Vec<String> = (0..9).map(|key| format!("key {key}")).collect();
    let charges: Vec<_> = keys.iter().map(|key| charge(key, &plan, 1, ChargeAction::Ignore)).collect();
    // The server learns the scripts.
    assert!(store.charge(&charges, Whole::Open).await.unwrap().passes);
    for one in &charges {
        store.refund(one.request, Charged::ago(Nanos::ZERO)).await.unwrap();
    }
    sent(&mut connection, "evalsha");
    {
        let mut asked = pin!(store.charge(&charges, Whole::Open));
        let is_answered = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_ready())).await;
        assert!(!is_answered, "given up at once");
    }
    // Two looks, two calls that take, and nine refunds.
    let mut calls = 0;
    eventually("all is given back", async || {
        calls += sent(&mut connection, "evalsha");
        calls >= 13
    })
    .await;
    for one in &charges {
        assert_eq!(store.peek(one.request).await.unwrap().remaining, 5, "{:?}", one.request.key);
    }
}

/// Charges that refuse only together, in several calls: it takes all of them.
#[tokio::test]
async fn who_refuses_together_may_be_asked_apart() {
    let server = Server::redis();
    let store = patient(&server.url()).time_from(FakeClock::at(NOW)).connect().await.unwrap();
    let (one, two) = (Plan::parse("one", "1/h").unwrap(), Plan::parse("two", "2/h").unwrap());
    let keys: Vec<String> = (0..18).map(|key| format!("together {key}")).collect();
    let together = |wide: usize| -> Vec<Charge<'_>> {
        let plan = |key| if key == wide { &two } else { &one };
        let of = |(place, key)| charge(key, plan(place), 1, ChargeAction::Ignore);
        let charges = keys.iter().map(String::as_str).enumerate().map(of);
        charges.map(|one| Charge { force: ChargeForce::Together, ..one }).collect()
    };
    for wide in [0, 9, 17] {
        let charges = together(wide);
        let mut passed = Vec::new();
        for _ in 0..3 {
            passed.push(store.charge(&charges, Whole::Open).await.unwrap().passes);
        }
        assert_eq!(passed, [true, true, false], "{wide} is the last that is not over");
        for charge in &charges {
            store.reset(charge.request).await.unwrap();
        }
    }
}

/// What holds have estimated whose leases ran out is given back before a charge is judged.
#[tokio::test]
async fn what_has_lapsed_is_given_back_first() {
    let server = Server::redis();
    let clock = FakeClock::at(NOW);
    let store = patient(&server.url()).time_from(clock.clone()).connect().await.unwrap();
    let plan = Plan::parse("llm", "1000 tokens/day burst 1000").unwrap().on_lapse(OnLapse::Refund);
    let held = Held { plans: vec![plan.clone().into()], key: "who".to_owned() };
    assert!(held.hold(&store, 1, 900, Nanos::from_secs(60)).await.unwrap().decision.allowed);
    clock.advance(Nanos::from_secs(61));
    let tokens = [("tokens", 950)];
    let request = Request::of(Key::new("who").unwrap(), Rules::Plan(&plan), Amounts::of(&tokens));
    let charges = [Charge { request, action: ChargeAction::Ignore, force: ChargeForce::Alone }];
    assert!(store.charge(&charges, Whole::Open).await.unwrap().passes);
}

/// A state that cannot be read is an error of all charges, and none is made; or it is reset, as the policy says.
#[tokio::test]
async fn a_state_that_cannot_be_read() {
    let server = Server::redis();
    let mut connection = server.connection();
    let plan = Plan::parse("p", "5/m fixed").unwrap();
    let both = ["read", "unread"].map(|key| charge(key, &plan, 1, ChargeAction::Count));
    for policy in [OnUnreadable::Error, OnUnreadable::Reset] {
        let store = patient(&server.url()).unreadable(policy).time_from(FakeClock::at(NOW));
        let store = store.connect().await.unwrap();
        let name = store.keys(&both[1].request).unwrap().remove(0);
        let () = connection.set(&name, "hello").unwrap();
        let judged = store.charge(&both, Whole::Open).await;
        match policy {
            OnUnreadable::Error => {
                assert_eq!(judged.unwrap_err().kind(), StoreErrorKind::Unreadable);
                let look = store.peek(both[0].request).await.unwrap();
                assert_eq!(look.remaining, 5, "nobody is charged");
            }
            _ => {
                assert_eq!(told(&judged.unwrap()), [Some(4), Some(4)]);
                assert_eq!(store.losses().states_reset, 1);
            }
        }
    }
}

/// Windows whose edges are sent along, by a process whose clock is years off: the server says so, and is asked again.
#[tokio::test]
async fn windows_are_the_servers() {
    let server = Server::redis();
    let plans = ["10/day fixed grid", "20 per 30day fixed grid", "30/month fixed calendar"];
    let plans = plans.map(|text| Plan::parse("p", text).unwrap());
    for now in [0, 4_000_000_000] {
        let store = patient(&server.url()).wall_clock_at(Timestamp::from_secs(now)).build().unwrap();
        let keys: Vec<String> = (0..3).map(|plan| format!("{now} {plan}")).collect();
        let charges: Vec<_> =
            keys.iter().zip(&plans).map(|(key, plan)| charge(key, plan, 1, ChargeAction::Count)).collect();
        let judgment = store.charge(&charges, Whole::Open).await.unwrap();
        assert_eq!(told(&judgment), [Some(9), Some(19), Some(29)]);
    }
}
