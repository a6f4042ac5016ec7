//! More threads than cores on four instances that share a key, by real clocks, counted from outside: never more than the quota.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ratekeeper::port::{Request, Store};
use ratekeeper::{Charged, Cost, Key, Plan, Quota, Rules, Timestamp};
use ratekeeper_postgres::PostgresStore;

use test_support::bound::{Admission, Bound, breach};
use test_support::postgres::Server;
use test_support::quotas::QUOTAS;
use test_support::random::Random;
use test_support::wait::PATIENCE;

/// Threads, each with a runtime of its own.
const THREADS: usize = 16;

/// How long a crowd asks at least: longer than the windows of the quotas that have short ones.
const RUN: Duration = Duration::from_millis(300);

/// How often each thread asks at least: all of them together more often than any burst.
const LEAST_ASKED: u32 = 10;

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
    let stores: [PostgresStore; 4] = std::array::from_fn(|_| crate::guard::patient(&server).build().unwrap());
    let (mut denied, mut turns, mut deadline) = (0, 0, None);
    let locked = || stores.iter().map(|store| store.counts().locked).sum::<u64>();
    // Every quota once, and again until rows had to be locked: two instances have met on a key.
    for (number, text) in QUOTAS.into_iter().enumerate().cycle() {
        if turns >= QUOTAS.len() {
            if locked() > 0 {
                break;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            assert!(Instant::now() < deadline, "they never met");
        }
        let key = format!("{text}, turn {turns}");
        turns += 1;
        let quota: Quota = text.parse().unwrap();
        let plan = Plan::parse("crowd", &format!("rule={text}")).unwrap();
        // A plan's rule and a request's own quota in turn.
        let rules = if number % 2 == 0 { Rules::Plan(&plan) } else { Rules::Quota(&quota) };
        let (barrier, start) = (Barrier::new(THREADS), Instant::now());
        let answers = thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                let (store, barrier, key) = (&stores[thread % stores.len()], &barrier, key.as_str());
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    let request = Request::new(Key::new(key).unwrap(), rules, Cost::ONE);
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
    // One of the quotas hardly refills.
    assert!(denied > 0 || refunds, "more than the quota");
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
    let (deadline, mut asked) = (Instant::now() + RUN, 0);
    while asked < LEAST_ASKED || Instant::now() < deadline {
        asked += 1;
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
