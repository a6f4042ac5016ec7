//! What one instance leaves over is there for the others, and what one resets is reset for all.

use std::time::Instant;

use ratekeeper::port::Store;

use crate::leases::instances::{Instances, leased_plan, patient, request};
use test_support::redis::one_unless_thorough;
use test_support::redis::server::Server;
use test_support::wait;

/// Asks until it is refused, and returns how many were allowed.
async fn drain(instances: &Instances, instance: usize) -> u64 {
    let mut admitted = 0;
    while instances.ask(instance, 1).await.unwrap().allowed {
        admitted += 1;
        if admitted % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    admitted
}

/// Nothing refills: what instances hold when they stop is there for another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_over_is_there_for_others() {
    const INSTANCES: usize = 5;
    const BURST: u64 = 1_000;
    for server in one_unless_thorough(Server::each()) {
        let plan = leased_plan(&format!("1/day burst {BURST}"), "10s");
        let instances = Instances::new(INSTANCES, plan.clone(), || patient(&server.url()));
        let (mut stamps, deadline) = (Vec::new(), Instant::now() + wait::PATIENCE);
        for instance in 0..INSTANCES {
            // A busy machine may ask too slowly for a lease: then once more.
            while instances.statistics(instance).left == 0 {
                assert!(Instant::now() < deadline, "never leased: {:?}", instances.statistics(instance));
                instances.hoard(instance, &mut stamps).await;
            }
        }
        for store in &*instances.stores {
            store.close().await;
        }
        let counts = || -> Vec<_> { (0..INSTANCES).map(|instance| instances.statistics(instance)).collect() };
        // Tasks give back the leases that had ended before.
        wait::until_async("all is given back", || {
            counts().iter().all(|counts| counts.left == 0 && counts.returned > 0)
        })
        .await;
        let spent = stamps.len() as u64;
        let exact = patient(&server.url()).leased_keys(0).build().unwrap();
        let deadline = Instant::now() + wait::PATIENCE;
        loop {
            let left = exact.peek(request(&plan, 0)).await.unwrap().remaining;
            let burnt: u64 = counts().iter().map(|counts| counts.burnt).sum();
            if left + spent + burnt >= BURST {
                break;
            }
            assert!(Instant::now() < deadline, "{left} left, {spent} spent, {burnt} burnt");
            tokio::task::yield_now().await;
        }
        let mut admitted = spent;
        while exact.acquire(request(&plan, 1)).await.unwrap().allowed {
            admitted += 1;
        }
        assert!(admitted <= BURST, "{admitted} of {BURST}");
    }
}

/// An instance that stops gives back what it holds, without waiting for the end of its leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_gives_back_at_once() {
    let server = Server::redis();
    let instances = Instances::new(1, leased_plan("10/s burst 1000", "10s"), || patient(&server.url()));
    instances.hoard(0, &mut Vec::new()).await;
    let held = instances.statistics(0).left;
    assert!(held > 100, "{held} held");
    let exact = patient(&server.url()).leased_keys(0).build().unwrap();
    let before = exact.peek(request(&instances.plan, 0)).await.unwrap().remaining;
    instances.stores[0].close().await;
    let counts = instances.statistics(0);
    assert_eq!((counts.left, counts.held), (0, 0), "{counts:?}");
    let after = exact.peek(request(&instances.plan, 0)).await.unwrap().remaining;
    assert!(after >= before + counts.returned && counts.returned > 0, "{before}, then {after}: {counts:?}");
}

/// Who resets has a fresh key at once; the others when they ask the server again, and what they held ends by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_through_one_is_honoured_by_all() {
    for server in one_unless_thorough(Server::each()) {
        // So slow that nobody is allowed between two refusals, however long the machine takes for them.
        let plan = leased_plan("60/h burst 1000", "500ms");
        let instances = Instances::new(2, plan, || patient(&server.url()));
        // Both are leased, and both know that there is no more.
        for instance in [0, 1, 0, 1] {
            for _ in 0..100 {
                instances.ask(instance, 1).await.unwrap();
            }
        }
        drain(&instances, 0).await;
        drain(&instances, 1).await;
        assert!(!instances.ask(0, 1).await.unwrap().allowed || !instances.ask(1, 1).await.unwrap().allowed);
        assert_eq!(instances.stores[0].reset(request(&instances.plan, 0)).await.unwrap(), 1);
        let fresh = instances.ask(0, 1).await.unwrap();
        assert!(fresh.allowed && fresh.remaining >= 990, "{fresh:?}");
        // Nothing refills fast enough to be taken for a fresh key. The other denies until it asks the server again.
        let deadline = Instant::now() + wait::PATIENCE;
        let mut other = 0;
        while other < 200 {
            other += u64::from(instances.ask(1, 1).await.unwrap().allowed);
            assert!(Instant::now() < deadline, "the other has not heard of it: {other} allowed");
            tokio::task::yield_now().await;
        }
    }
}
