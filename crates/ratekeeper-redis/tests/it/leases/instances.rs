//! Several instances under one limit, and what they were answered.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ratekeeper::port::{Request, Store};
use ratekeeper::store::LeaseStatistics;
use ratekeeper::{Cost, Decision, Key, Plan, Rules, StoreError};
use ratekeeper_redis::{RedisStore, RedisStoreBuilder};

use test_support::spans::Stamp;
use test_support::wait;

/// A plan with a lease.
pub(crate) fn leased_plan(text: &str, lease: &str) -> Plan {
    let plan = Plan::parse("api", text).unwrap().lease(lease.parse().unwrap()).unwrap();
    assert!(plan.leasing().is_some(), "{text}, {lease}: exact");
    plan
}

/// A store for a machine that does much else: what is tested is not how soon it answers.
pub(crate) fn patient(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).command_timeout(wait::PATIENCE).connect_timeout(wait::PATIENCE)
}

/// Several instances, which know nothing of each other, and one key.
#[derive(Clone, Debug)]
pub(crate) struct Instances {
    pub(crate) stores: Arc<[RedisStore]>,
    pub(crate) plan: Arc<Plan>,
}

impl Instances {
    pub(crate) fn new(count: usize, plan: Plan, build: impl Fn() -> RedisStoreBuilder) -> Self {
        let stores = (0..count).map(|_| build().build().unwrap()).collect();
        Instances { stores, plan: Arc::new(plan) }
    }

    pub(crate) fn burst(&self) -> u64 {
        self.plan.rules()[0].quota().burst()
    }

    pub(crate) fn life(&self) -> Duration {
        self.plan.leasing().unwrap().life.as_duration()
    }

    /// Asks one instance.
    pub(crate) async fn ask(&self, instance: usize, cost: u64) -> Result<Decision, StoreError> {
        self.stores[instance % self.stores.len()].acquire(request(&self.plan, cost)).await
    }

    /// Asks one instance for one, and writes down when if it is allowed.
    pub(crate) async fn ask_and_stamp(&self, instance: usize, stamps: &mut Vec<Stamp>) -> bool {
        let before = wall_nanos();
        let is_allowed = self.ask(instance, 1).await.unwrap().allowed;
        if is_allowed {
            stamps.push(Stamp { before, after: wall_nanos() });
        }
        is_allowed
    }

    /// Has an instance hold as much as it may, for next to nothing: what never passes counts as demand. Returns what was
    /// admitted.
    pub(crate) async fn hoard(&self, instance: usize, stamps: &mut Vec<Stamp>) {
        // A key is leased from its fourth request on.
        let warm = if self.statistics(instance).held == 0 { 3 } else { 0 };
        for _ in 0..warm {
            self.ask_and_stamp(instance, stamps).await;
        }
        assert!(!self.ask(instance, self.burst() + 1).await.unwrap().allowed, "more than there ever is");
        self.ask_and_stamp(instance, stamps).await;
    }

    /// Has all instances ask at once until each was refused twice, or all together have asked for twice the burst: the quota may
    /// refill faster than a busy machine asks. Returns what was admitted.
    pub(crate) async fn storm(&self) -> Vec<Stamp> {
        let most_asked = 2 * self.burst() / self.stores.len() as u64;
        let storms: Vec<_> = (0..self.stores.len())
            .map(|instance| {
                let instances = self.clone();
                tokio::spawn(async move {
                    let (mut stamps, mut refused, mut asked) = (Vec::new(), 0, 0);
                    while refused < 2 && asked < most_asked {
                        asked += 1;
                        refused += usize::from(!instances.ask_and_stamp(instance, &mut stamps).await);
                        // Others share the runtime, and what is asked ahead runs in it.
                        if stamps.len() % 16 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    stamps
                })
            })
            .collect();
        let mut stamps = Vec::new();
        for storm in storms {
            stamps.extend(storm.await.unwrap());
        }
        stamps
    }

    pub(crate) fn statistics(&self, instance: usize) -> LeaseStatistics {
        self.stores[instance].leases().unwrap()
    }
}

/// The one key that all ask for.
pub(crate) fn request(plan: &Plan, cost: u64) -> Request<'_> {
    Request::new(Key::new("hot").unwrap(), Rules::Plan(plan), Cost::new(cost))
}

/// What the clock on the wall shows, which is the server's, too: nanoseconds since 1970.
pub(crate) fn wall_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// Waits until so much time has passed.
pub(crate) async fn pass(span: Duration) {
    let end = Instant::now() + span;
    wait::until_async("time passes", || Instant::now() >= end).await;
}
