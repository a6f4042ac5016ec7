//! Windows on a grid hold their limit and no more, by the server's own clock: with what is held at their edge, with what is
//! given back across it, and with a server that is frozen across it.

use std::time::Duration;

use ratekeeper_redis::RedisStore;

use crate::leases::instances::{Instances, leased_plan, pass, patient, wall_nanos};
use test_support::redis::one_unless_thorough;
use test_support::redis::server::Server;
use test_support::spans::Stamp;

const WINDOW: u64 = 500_000_000;
const LIMIT: u64 = 4_000;
const HOARDERS: usize = 6;

fn plan() -> ratekeeper::Plan {
    leased_plan(&format!("{LIMIT} per 500ms fixed grid"), "10%")
}

/// Waits for this long before the next edge.
async fn before_the_edge(lead: Duration) {
    let into = wall_nanos() % WINDOW;
    let lead = u64::try_from(lead.as_nanos()).unwrap();
    // If that is over, the next one.
    let wait = (2 * WINDOW - lead - into) % WINDOW;
    pass(Duration::from_nanos(wait)).await;
}

/// Holds every window to its limit, by the calls that lie in it as a whole.
fn check(stamps: &[Stamp]) {
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    for stamp in stamps.iter().filter(|stamp| stamp.before / WINDOW == stamp.after / WINDOW) {
        *counts.entry(stamp.before / WINDOW).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    assert!(most <= LIMIT, "{most} of {LIMIT} in one window: {counts:?}");
}

/// Much is held at the edge, and then all ask for whatever they get.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_at_the_edge_ends_there() {
    let server = Server::redis();
    let instances = Instances::new(HOARDERS, plan(), || patient(&server.url()));
    let held = || -> u64 { (0..HOARDERS).map(|instance| instances.statistics(instance).full).sum() };
    let (mut stamps, mut rounds) = (Vec::new(), 0);
    // On a busy machine the edge may come before anything is leased: then once more.
    while rounds < 4 || held() == 0 {
        assert!(rounds < 100, "nothing was leased");
        rounds += 1;
        before_the_edge(Duration::from_millis(30)).await;
        for instance in 0..HOARDERS {
            instances.hoard(instance, &mut stamps).await;
        }
        before_the_edge(Duration::ZERO).await;
        stamps.extend(instances.storm().await);
        // A window in between, so that there is something to be held at its end.
        before_the_edge(Duration::ZERO).await;
    }
    check(&stamps);
}

/// Returns and calls that wait in a frozen server's socket are looked at after the edge: they must not make room there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_freezes_across_the_edge_mints_nothing() {
    for server in one_unless_thorough(Server::each()) {
        // Shorter than a window: whoever asks the frozen server is given an error before the next edge. Late answers of the
        // healthy server are expected below.
        let impatient = || RedisStore::builder(&server.url()).command_timeout(Duration::from_millis(150));
        let instances = Instances::new(HOARDERS, plan(), impatient);
        let mut stamps = Vec::new();
        for _ in 0..2 {
            before_the_edge(Duration::from_millis(60)).await;
            for instance in 0..HOARDERS {
                // On a busy machine an answer may be late: then this one holds nothing.
                let _ = instances.ask(instance, 1).await;
                let _ = instances.ask(instance, LIMIT + 1).await;
                let _ = instances.ask(instance, 1).await;
            }
            server.freeze();
            // What is held is spent here, or given back to a server that does not listen.
            let mut decided = Vec::new();
            for instance in 0..HOARDERS / 2 {
                let before = wall_nanos();
                if let Ok(decision) = instances.ask(instance, 1).await {
                    decided.push((before, wall_nanos(), decision.allowed));
                }
            }
            let allowed = decided.iter().filter(|(.., is_allowed)| *is_allowed);
            stamps.extend(allowed.map(|(before, after, _)| Stamp { before: *before, after: *after }));
            before_the_edge(Duration::ZERO).await;
            // In the new window nothing is paid for, and the server is silent: that is an error, no refusal.
            for instance in 0..HOARDERS {
                let answer = instances.ask(instance, 1).await;
                assert!(answer.is_err(), "{answer:?}");
            }
            server.thaw();
            // The breakers close again.
            for store in &*instances.stores {
                crate::leases::outages::is_back(store).await;
            }
            before_the_edge(Duration::ZERO).await;
            stamps.extend(storm_with_errors(&instances).await);
        }
        check(&stamps);
    }
}

/// As [`Instances::storm`], where answers may be late.
async fn storm_with_errors(instances: &Instances) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    let mut refused = 0;
    // The quota may refill faster than a busy machine asks.
    let most_asked = usize::try_from(2 * LIMIT).unwrap();
    for turn in 0..most_asked {
        let before = wall_nanos();
        match instances.ask(turn, 1).await {
            Ok(decision) if decision.allowed => stamps.push(Stamp { before, after: wall_nanos() }),
            _ => refused += 1,
        }
        if refused == 2 * instances.stores.len() {
            break;
        }
        if turn % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    stamps
}
