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

/// Nothing to speak of refills: what an instance holds when its callers go away is found by another, or is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_over_is_there_for_others() {
    for server in one_unless_thorough(Server::each()) {
        let plan = leased_plan("60/h burst 1000", "4s");
        let exact = patient(&server.url()).leased_keys(0).build().unwrap();
        let left = async || exact.peek(request(&plan, 0)).await.unwrap().remaining;
        let deadline = Instant::now() + wait::PATIENCE;
        let (instances, begun, stamps, held, before) = loop {
            let instances = Instances::new(6, plan.clone(), || patient(&server.url()));
            for store in &*instances.stores {
                store.check().await.unwrap();
            }
            let (begun, mut stamps) = (Instant::now(), Vec::new());
            for instance in 0..5 {
                instances.hoard(instance, &mut stamps).await;
            }
            let held: u64 = (0..5).map(|instance| instances.statistics(instance).left).sum();
            let before = left().await;
            // What was held first has not ended yet: all is held at once.
            if begun.elapsed() < instances.life() / 2 {
                break (instances, begun, stamps, held, before);
            }
            assert!(Instant::now() < deadline, "never in half the life of a lease");
            for store in &*instances.stores {
                store.close().await;
            }
            redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
        };
        assert!(held > 400, "{held} held");
        wait::until_async("all is given back", || {
            (0..5).all(|instance| instances.statistics(instance).returned > 0)
        })
        .await;
        let returned: u64 = (0..5).map(|instance| instances.statistics(instance).returned).sum();
        let after = left().await;
        // Of each of the five leases that stays behind which refilled while it was held.
        let refills = || begun.elapsed().as_secs_f64() / 60.0 + 1.0;
        let expected = (before + returned) as f64 - 5.0 * refills();
        assert!(after as f64 >= expected, "{before}, then {returned} given back, then {after}");
        let admitted = (stamps.len() as u64 + drain(&instances, 5).await) as f64;
        assert!(admitted >= 1_000.0 - 5.0 * refills(), "{admitted} of 1000, in {:?}", begun.elapsed());
        assert!(admitted <= 1_000.0 + refills() + 5.0, "{admitted} of 1000, in {:?}", begun.elapsed());
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
        let mut admitted = 0;
        // Both are leased, and both know that there is no more.
        for instance in [0, 1, 0, 1] {
            for _ in 0..100 {
                admitted += u64::from(instances.ask(instance, 1).await.unwrap().allowed);
            }
        }
        admitted += drain(&instances, 0).await + drain(&instances, 1).await;
        assert!(admitted >= 900, "{admitted}");
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
