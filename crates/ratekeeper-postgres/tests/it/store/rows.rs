//! What is in the table, and when it goes.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all, join3};
use ratekeeper::port::{Charge, ChargeAction, ChargeForce, HoldId, HoldRequest, Request, Store, Whole};
use ratekeeper::store::LoadedKeys;
use ratekeeper::testkit::FakeClock;
use ratekeeper::{Amounts, Cost, Key, Nanos, Plan, Quota, Rules, Timestamp};

use test_support::postgres::Server;
use test_support::wait::until_async;

fn request<'a>(key: &'a str, quota: &'a Quota) -> Request<'a> {
    Request::new(Key::new(key).unwrap(), Rules::Quota(quota), Cost::ONE)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_expired_is_deleted_by_one_of_them() {
    let Some(server) = Server::start(&[]) else { return };
    let stores: Vec<_> = (0..3)
        .map(|_| crate::store::patient(&server).sweep_every(Duration::from_millis(100)).build().unwrap())
        .collect();
    let (short, long): (Quota, Quota) = ("1 per 10ms".parse().unwrap(), "1/day".parse().unwrap());
    for number in 0..50 {
        assert!(stores[0].acquire(request(&format!("short {number}"), &short)).await.unwrap().allowed);
    }
    assert!(stores[0].acquire(request("long", &long)).await.unwrap().allowed);
    let rows = || server.sql("SELECT count(*) FROM ratekeeper");
    until_async("all but one are gone", || rows() == ["1"]).await;
    let swept = || stores.iter().map(|store| store.counts().swept).sum::<u64>();
    until_async("each is deleted once", || swept() == 50).await;
    assert!(!stores[1].acquire(request("long", &long)).await.unwrap().allowed);
    // Whoever remembers a row that was deleted is told so.
    assert!(stores[0].acquire(request("short 7", &short)).await.unwrap().allowed);
}

/// More rows than one statement looks at, with some among them that stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_several_slices_is_swept_to_its_end() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).sweep_every(Duration::from_millis(50)).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert!(store.acquire(request("old 15", &quota)).await.unwrap().allowed);
    server.sql(
        "INSERT INTO ratekeeper SELECT convert_to('old ' || n, 'UTF8'), 1, '', 1 FROM generate_series(1, 3500) n \
         ON CONFLICT DO NOTHING",
    );
    let rows = || server.sql("SELECT convert_from(key, 'UTF8') FROM ratekeeper");
    until_async("only what is worth something stays", || rows() == ["old 15"]).await;
    until_async("each is deleted once", || store.counts().swept == 3_499).await;
}

#[tokio::test]
async fn a_key_that_is_as_good_as_new_has_no_row() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "5/day".parse().unwrap();
    assert!(store.peek(request("k", &quota)).await.unwrap().allowed);
    assert_eq!(
        store.acquire(Request { cost: Cost::new(6), ..request("k", &quota) }).await.unwrap().retry_after,
        None
    );
    let rows = || server.sql("SELECT count(*) FROM ratekeeper");
    assert_eq!(rows(), ["0"], "neither a peek nor a refusal writes");
    let charged = store.acquire(request("k", &quota)).await.unwrap().charged_at().unwrap();
    assert_eq!(rows(), ["1"]);
    store.refund(request("k", &quota), ratekeeper::Charged::at(charged)).await.unwrap();
    // What has refilled meanwhile is gone: a microsecond's worth of a day is not nothing.
    assert_eq!(store.peek(request("k", &quota)).await.unwrap().remaining, 5);
}

/// Charges of many keys that have a log each share a statement, and each key has room of its own.
#[tokio::test]
async fn the_room_of_a_key_does_not_depend_on_who_else_waits() {
    let Some(server) = Server::start(&[]) else { return };
    let clock = FakeClock::at(Timestamp::from_secs(1_000_000));
    let builder = || crate::store::patient(&server).connections(NonZeroUsize::MIN).time_from(clock.clone());
    let (log, global): (Quota, Quota) = ("500/h log".parse().unwrap(), "100000/h".parse().unwrap());
    let users: Vec<String> = (0..250).map(|number| format!("user {number}")).collect();
    let requests: Vec<Request<'_>> = users.iter().map(|user| request(user, &log)).collect();
    let store = builder().sweep_every(Duration::ZERO).build().unwrap();
    for _ in 0..200 {
        clock.advance(Nanos::from_millis(1));
        let mut answers = Vec::new();
        store.acquire_many(&requests, &mut answers).await.unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.allowed)));
    }
    // All wait for its connection, and then for one statement.
    let other = builder().sweep_every(Duration::ZERO).build().unwrap();
    let charges = requests.iter().map(|of_user| {
        let other = other.clone();
        let charges = [*of_user, request("global", &global)].map(|request| Charge {
            request,
            action: ChargeAction::Ignore,
            force: ChargeForce::Alone,
        });
        async move { other.charge(&charges, Whole::Open).await.unwrap().passes }
    });
    let passes = join_all(charges).await;
    assert_eq!(passes.iter().filter(|passes| !**passes).count(), 0, "{:?}", other.counts());
    // Each has its 200 entries and the charge.
    let other = builder().sweep_every(Duration::ZERO).build().unwrap();
    for request in [requests[0], requests[249]] {
        assert_eq!(other.peek(request).await.unwrap().remaining, 500 - 201);
    }
}

/// One key of many that are charged together gets no more than its own room: thousands of holds end where it does.
#[tokio::test]
async fn a_key_does_not_take_the_room_of_others() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).connections(NonZeroUsize::MIN).build().unwrap();
    let plans = [Arc::new(Plan::parse("jobs", "1000000 concurrent").unwrap())];
    let (quota, big) = ("100000/h".parse::<Quota>().unwrap(), Key::new("big").unwrap());
    let users: Vec<String> = (0..50).map(|number| format!("user {number}")).collect();
    let mut held = Vec::new();
    // How many get in at a time depends on who shares a statement: some are refused before all the room is taken.
    while held.last() != Some(&0) && held.len() < 100 {
        let turn = held.len() as u128;
        let holds = (0..900).map(|number| {
            let (id, lease) = (HoldId::from_bits(turn * 1_000 + number + 1), Nanos::from_secs(3_600));
            let hold = HoldRequest { key: big, plans: &plans, amounts: Amounts::of(&[]), id, lease };
            let store = &store;
            async move { store.hold(hold).await.unwrap().decision.allowed }
        });
        let charges = users.iter().map(|user| {
            let charges = [request(user, &quota), request("big", &quota)].map(|request| Charge {
                request,
                action: ChargeAction::Ignore,
                force: ChargeForce::Alone,
            });
            let store = &store;
            async move { store.charge(&charges, Whole::Open).await.map(drop) }
        });
        let (allowed, _) = join(join_all(holds), join_all(charges)).await;
        held.push(allowed.iter().filter(|allowed| **allowed).count());
    }
    let length: usize =
        server.sql("SELECT length(record) FROM ratekeeper WHERE key = 'big'")[0].parse().unwrap();
    assert!(held[0] == 900 && held.last() == Some(&0), "{held:?}");
    let most = LoadedKeys::MOST_BYTES;
    assert!((most / 2..=most).contains(&length), "{length}: {held:?}");
}

#[tokio::test]
async fn keys_are_any_bytes_and_records_may_be_long() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).build().unwrap();
    let other = crate::store::patient(&server).build().unwrap();
    let quota: Quota = "3000/day log".parse().unwrap();
    for key in [&[0_u8][..], b"\\x41", b"'; DROP TABLE ratekeeper; --", &[0xff; 1_024]] {
        let request = Request::new(Key::new(key).unwrap(), Rules::Quota(&quota), Cost::ONE);
        assert_eq!(store.acquire(request).await.unwrap().remaining, 2_999);
        assert_eq!(other.acquire(request).await.unwrap().remaining, 2_998);
    }
    let request = request("long", &quota);
    let mut answers = Vec::new();
    store.acquire_many(&vec![request; 1_500], &mut answers).await.unwrap();
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.allowed)));
    assert_eq!(other.peek(request).await.unwrap().remaining, 1_500);
}

/// A row that cannot be read fails those who name it. Whoever shared another key with them, in one statement, failed as well.
#[tokio::test]
async fn a_row_that_cannot_be_read_fails_only_those_who_ask_for_it() {
    let Some(server) = Server::start(&[]) else { return };
    let store = crate::store::patient(&server).connections(NonZeroUsize::MIN).build().unwrap();
    let quota: Quota = "100/day".parse().unwrap();
    store.peek(request("shared", &quota)).await.unwrap();
    server.sql("INSERT INTO ratekeeper VALUES ('damaged', 7, 'nothing of ours', 9000000000000000)");
    let charge = |key: &'static str| {
        let (store, quota) = (&store, &quota);
        async move {
            let charges = ["shared", key].map(|key| Charge {
                request: request(key, quota),
                action: ChargeAction::Ignore,
                force: ChargeForce::Alone,
            });
            store.charge(&charges, Whole::Open).await.map(|judgment| judgment.passes)
        }
    };
    // They wait for a statement of somebody else, and go together.
    server.freeze();
    let elsewhere = request("elsewhere", &quota);
    let (_, (damaged, sound, ())) =
        join(store.acquire(elsewhere), join3(charge("damaged"), charge("sound"), async { server.thaw() }))
            .await;
    assert_eq!(damaged.unwrap_err().reason(), "unreadable");
    assert!(sound.unwrap());
    assert_eq!(store.peek(request("shared", &quota)).await.unwrap().remaining, 99);
}
