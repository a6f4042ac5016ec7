//! More threads than cores on four instances that share a key, by real clocks, counted from outside: never more than the quota.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Charged, Cost, Key, Plan, Quota, Rules, Timestamp};
use ratekeeper_postgres::PostgresStore;

use crate::bound::{Admission, Bound, breach};
use crate::quotas::QUOTAS;
use crate::random::Random;
use crate::support::server::Server;

/// Threads, each with a runtime of its own.
const THREADS: usize = 16;

/// How long a crowd asks.
const RUN: Duration = Duration::from_millis(700);

#[test]
fn no_crowd_gets_more_than_the_quota() {
    storm(false);
}

/// Refunds of any age and in any order: what was admitted and not given back stays within the quota, and so does what was
/// admitted, but for what had not come back by itself.
#[test]
fn no_crowd_mints_by_giving_back() {
    storm(true);
}

fn storm(refunds: bool) {
    let Some(server) = Server::start(&[]) else { return };
    let stores: [PostgresStore; 4] = std::array::from_fn(|_| crate::patient(&server).build().unwrap());
    let mut denied = 0;
    for (number, text) in QUOTAS.into_iter().enumerate() {
        let quota: Quota = text.parse().unwrap();
        let plan = Plan::parse("crowd", &format!("rule={text}")).unwrap();
        // A plan's rule and a request's own quota in turn.
        let rules = if number % 2 == 0 { Rules::Plan(&plan) } else { Rules::Quota(&quota) };
        let (barrier, start) = (Barrier::new(THREADS), Instant::now());
        let answers = thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                let (store, barrier) = (&stores[thread % stores.len()], &barrier);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let request = Request::new(Key::new(text).unwrap(), rules, Cost::ONE);
                    let look = Request::new(Key::new("another").unwrap(), rules, Cost::ZERO);
                    runtime.block_on(async { store.peek(look).await }).unwrap();
                    barrier.wait();
                    runtime.block_on(ask(store, request, start, refunds.then(|| Random::new(thread as u64))))
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        denied += answers.iter().map(|answer| answer.1).sum::<u64>();
        let admitted: Vec<Admission> = answers.into_iter().flat_map(|answer| answer.0).collect();
        assert!(!admitted.is_empty(), "{text}: no crowd at all");
        let bound = Bound::of(&quota);
        if let Some(breach) = breach(&admitted, |span| bound.within(span)) {
            panic!("{text}: {breach}");
        }
    }
    // A busy machine may ask less often than the quickest of them refills.
    assert!(denied > 0, "nobody asked too often");
    let locked: u64 = stores.iter().map(|store| store.counts().locked).sum();
    assert!(locked > 0, "they met");
}

/// Asks for a while. With numbers to draw from, some of what was taken is given back, at once or later.
async fn ask(
    store: &PostgresStore,
    request: Request<'_>,
    start: Instant,
    mut random: Option<Random>,
) -> (Vec<Admission>, u64) {
    let now = || u64::try_from(start.elapsed().as_nanos()).unwrap();
    let (mut admitted, mut denied) = (Vec::<Admission>::new(), 0);
    let mut held: Vec<(usize, Timestamp)> = Vec::new();
    let deadline = Instant::now() + RUN;
    while Instant::now() < deadline {
        let before = now();
        let decision = store.acquire(request).await.unwrap();
        if decision.allowed {
            held.push((admitted.len(), decision.charged_at().expect("it was taken")));
            admitted.push(Admission { before, after: now(), cost: 1, refunded: None });
        } else {
            denied += 1;
        }
        if let Some(random) = random.as_mut().filter(|_| !held.is_empty())
            && random.once_in(3)
        {
            let (which, charged) = held.swap_remove(random.index(held.len()));
            admitted[which].refunded = Some(now());
            store.refund(request, Charged::at(charged)).await.unwrap();
        }
    }
    (admitted, denied)
}
