//! The server is away while keys are leased: what is paid for is spent, and then the failure mode answers.

use std::time::{Duration, Instant};

use ratekeeper::port::Store;
use ratekeeper::{FailureMode, Keeper, Plan, Quota, Reason, Registry};
use ratekeeper_redis::RedisStore;

use crate::leases::instances::{leased_plan, patient, request};
use test_support::redis::server::Server;
use test_support::wait;

/// How the server goes away.
#[derive(Clone, Copy, Debug)]
enum Outage {
    Killed,
    Frozen,
}

/// Waits until a store is served again, by a key of its own.
pub(crate) async fn is_back(store: &RedisStore) {
    let quota: Quota = "1000000/s".parse().unwrap();
    let other = ratekeeper::port::Request::new(
        ratekeeper::Key::new("other").unwrap(),
        ratekeeper::Rules::Quota(&quota),
        ratekeeper::Cost::ONE,
    );
    wait::until_ok("the store is back", async || store.acquire(other).await).await;
}

const BURST: u64 = 1_000;

fn plan() -> Plan {
    // Leases outlast the outage, and almost nothing refills.
    leased_plan(&format!("60/h burst {BURST}"), "10s").on_store_error(FailureMode::Open)
}

async fn goes_away(outage: Outage) {
    let mut server = Server::redis();
    let store = RedisStore::builder(&server.url()).command_timeout(Duration::from_secs(1)).build().unwrap();
    let keeper = Keeper::new(store.clone(), Registry::new([plan()]));
    is_back(&store).await;
    // Until much is held when the server goes.
    let (mut held, mut before, deadline) = (0, 0, Instant::now() + wait::PATIENCE);
    while held <= 10 && before < BURST / 2 {
        assert!(Instant::now() < deadline, "{before} allowed, {:?}", store.leases());
        let ruling = keeper.acquire("hot", "api", 1).await.unwrap();
        before += u64::from(ruling.reason != Reason::FailOpen);
        held = store.leases().unwrap().left;
    }
    assert!(held > 10, "{:?}", store.leases());
    match outage {
        Outage::Killed => server.kill(),
        Outage::Frozen => server.freeze(),
    }
    // What is held, and then answers in the server's stead: never a refusal of our own.
    let (mut paid, mut in_its_stead, deadline) = (0, 0, Instant::now() + wait::PATIENCE);
    while in_its_stead < 50 {
        assert!(Instant::now() < deadline, "{outage:?}: {paid} of what was held, {in_its_stead} answered");
        let ruling = keeper.acquire("hot", "api", 1).await.unwrap();
        assert!(ruling.allowed, "{outage:?}: {ruling:?}");
        match ruling.reason {
            Reason::FailOpen => in_its_stead += 1,
            _ => paid += 1,
        }
    }
    assert!(paid + before <= BURST + 5, "{outage:?}: {before} before it, {paid} of what was held");
    match outage {
        Outage::Killed => server.restart(&[]),
        Outage::Frozen => server.thaw(),
    }
    is_back(&store).await;
    let deadline = Instant::now() + wait::PATIENCE;
    while keeper.acquire("hot", "api", 1).await.unwrap().reason == Reason::FailOpen {
        assert!(Instant::now() < deadline, "{outage:?}: never answered by the server again");
    }
    // What timed out may have been charged, what is held is charged: nothing has come from nowhere.
    let exact = patient(&server.url()).leased_keys(0).build().unwrap();
    let left = exact.peek(request(&plan(), 0)).await.unwrap().remaining;
    assert!(left < BURST, "{outage:?}: {left} left in the server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed() {
    goes_away(Outage::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_freezes() {
    goes_away(Outage::Frozen).await;
}
