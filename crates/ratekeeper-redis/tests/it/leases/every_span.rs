//! No span of time holds more than the burst, what refills in it, and what refills in the life of a lease: however many
//! instances ask, whatever they hold and give back, wherever the server is.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper_redis::RedisStoreBuilder;

use crate::leases::instances::{Instances, leased_plan, pass, patient, wall_nanos};
use test_support::redis::cluster::Cluster;
use test_support::redis::sentinel::Trio;
use test_support::redis::server::{Server, redis_binary};
use test_support::spans::{Stamp, most_within, worst_span};
use test_support::wait::PATIENCE;

/// Two clocks that are read one after the other: a thousandth of a span and some microseconds are far more than they differ.
const DRIFT: f64 = 1.001;
const READING: f64 = 20e-6;

/// Holds what was admitted to `burst + rate · (span + life)` in every span.
fn check(instances: &Instances, stamps: &[Stamp], attack: &str) {
    let quota = instances.plan.rules()[0].quota();
    let rate = quota.count() as f64 / quota.period().as_duration().as_secs_f64() * DRIFT;
    let bound = instances.burst() as f64 + rate * (instances.life().as_secs_f64() + READING);
    let worst = worst_span(stamps, rate).unwrap();
    assert!(worst.beside <= bound, "{attack}: {worst:?}, of {bound} beside what refills");
}

/// Threads, more than cores, each with a runtime of its own, ask through some instances as fast as they can.
fn crowd(instances: &Instances, length: Duration) -> Vec<Stamp> {
    const THREADS: usize = 8;
    // However slow the machine is: all together more often than any burst.
    const LEAST_ASKED: u32 = 600;
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let ask = |number: usize| {
            let barrier = &barrier;
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let store = &instances.stores[number % instances.stores.len()];
                runtime.block_on(store.check()).unwrap();
                barrier.wait();
                runtime.block_on(async {
                    let (begun, mut stamps, mut asked) = (Instant::now(), Vec::new(), 0_u32);
                    while asked < LEAST_ASKED || begun.elapsed() < length {
                        instances.ask_and_stamp(number, &mut stamps).await;
                        asked += 1;
                        // What is asked ahead runs on this thread.
                        if asked % 16 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    stamps
                })
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(ask(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn hold_a_crowd_to(quota: &str, lease: &str, build: impl Fn() -> RedisStoreBuilder) {
    let instances = Instances::new(4, leased_plan(quota, lease), build);
    let by_lease = || -> u64 { (0..4).map(|instance| instances.statistics(instance).by_lease).sum() };
    let (mut stamps, deadline) = (Vec::<Stamp>::new(), Instant::now() + PATIENCE);
    // A busy machine may ask too slowly for a lease: then once more.
    while by_lease() == 0 {
        assert!(Instant::now() < deadline, "{quota}: {} admitted, none of them by a lease", stamps.len());
        // Many lives of a lease.
        stamps.extend(crowd(&instances, 10 * instances.life()));
    }
    check(&instances, &stamps, quota);
}

#[test]
fn of_a_crowd() {
    let server = Server::redis();
    for quota in ["20000/s burst 4000", "20000/s burst 4000 bucket", "20000/s burst 4000 leaky"] {
        hold_a_crowd_to(quota, "40ms", || patient(&server.url()).prefix(quota.replace(' ', "-")));
    }
}

#[test]
fn of_a_crowd_before_a_cluster_and_a_master_that_sentinels_watch() {
    let cluster = Cluster::start(&redis_binary());
    hold_a_crowd_to("20000/s burst 4000", "40ms", || patient(&cluster.url()));
    drop(cluster);
    let trio = Trio::patient(&redis_binary());
    hold_a_crowd_to("20000/s burst 4000", "40ms", || patient(&trio.url()));
}

/// A sliding counter admits up to twice its limit in one window by itself, and what refills in the life of a lease beside it.
#[test]
fn of_a_sliding_window() {
    let server = Server::redis();
    let plan = leased_plan("4000 per 400ms sliding", "40ms");
    let instances = Instances::new(4, plan, || patient(&server.url()));
    let stamps = crowd(&instances, Duration::from_millis(900));
    let most = most_within(&stamps, 399_000_000);
    assert!(most <= 2 * 4_000 + 400 + 2, "{most} in a window's time");
}

/// Half of the instances hold all there is and spend next to nothing; as their leases end, the other half takes what is
/// given back. If what refilled meanwhile came back with it, they would have more and more between them; if a lease lasted
/// longer than it may, so would they.
async fn hoard(quota: &str) {
    const HOARDERS: usize = 16;
    let server = Server::redis();
    let instances = Instances::new(HOARDERS, leased_plan(quota, "10%"), || patient(&server.url()));
    let mut stamps = Vec::new();
    for steps in [5, 14] {
        for step in 0..steps {
            let begun = Instant::now();
            for instance in (0..HOARDERS).skip(step % 2).step_by(2) {
                instances.hoard(instance, &mut stamps).await;
            }
            pass((instances.life() / 2).saturating_sub(begun.elapsed())).await;
        }
        stamps.extend(instances.storm().await);
        // The quota is whole again.
        let full = wall_nanos() + instances.plan.rules()[0].quota().refill_time().as_nanos();
        pass(Duration::from_nanos(full - wall_nanos())).await;
    }
    let returned = || -> u64 { (0..HOARDERS).map(|instance| instances.statistics(instance).returned).sum() };
    let deadline = Instant::now() + PATIENCE;
    // A busy machine may ask too slowly for a lease: then once more.
    while returned() == 0 {
        assert!(Instant::now() < deadline, "nothing is given back");
        instances.hoard(0, &mut stamps).await;
        pass(instances.life()).await;
    }
    check(&instances, &stamps, quota);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_instances_that_hoard() {
    hoard("1000/s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_instances_that_hoard_from_a_bucket() {
    hoard("1000/s bucket").await;
}
