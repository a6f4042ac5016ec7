//! A cluster under faults, and what callers may expect of the link to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::super::slot;
use super::callers::Callers;
use super::chance::{Chance, schedules};
use super::cluster::{NEWCOMER, NODES, SimulatedCluster, host};
use super::network::{HostState, Machines, Network};
use super::story::{Suffering, in_virtual_time, is_told_twice, keys, play_all};

/// Something that goes wrong, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterFault {
    Host(usize, HostState),
    Cut(usize),
    FailOver(usize),
    /// The replica takes over because its master is gone, which comes back as a replica.
    Crash(usize),
    /// The replica takes over because its master is gone, which never comes back.
    Die(usize),
    Move {
        slot: usize,
        to: usize,
    },
    FlushScript(usize),
    Ill(usize, &'static str),
    Forget(usize),
}

/// A cluster, and what happens to it.
struct ClusterWorld {
    cluster: Arc<SimulatedCluster>,
}

impl Suffering for ClusterWorld {
    type Fault = ClusterFault;

    /// The node in use pauses for 50 ms at least, and the map is asked for each 100 ms at most.
    const MOST_ATTEMPTS: u64 = 40;

    fn new() -> Self {
        ClusterWorld { cluster: Arc::new(SimulatedCluster::new()) }
    }

    fn machines(&self) -> Arc<dyn Machines> {
        Arc::clone(&self.cluster) as _
    }

    fn hosts() -> Vec<String> {
        (0..NODES).map(host).collect()
    }

    fn url() -> String {
        format!("redis-cluster://{},{},{}", host(0), host(1), host(4))
    }

    fn executed(&self, number: u64) -> u32 {
        self.cluster.executed(number)
    }

    fn draw(chance: &mut Chance) -> ClusterFault {
        let node = chance.index(NODES);
        let states = [HostState::Frozen, HostState::Gone, HostState::Unreachable, HostState::Slow];
        let errors = [
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "BUSY Redis is busy running a script",
        ];
        match chance.within(0..11) {
            0 | 1 => ClusterFault::Host(node, states[chance.index(states.len())]),
            2 => ClusterFault::Cut(node),
            3 => ClusterFault::FailOver(node),
            4 => ClusterFault::Die(node),
            5..8 => {
                let slot = slot::of(keys()[chance.index(12)].as_bytes());
                let to = if chance.once_in(2) { NEWCOMER } else { node };
                ClusterFault::Move { slot, to }
            }
            8 if chance.once_in(2) => ClusterFault::FlushScript(node),
            8 => ClusterFault::Forget(node),
            9 => ClusterFault::Crash(node),
            _ => ClusterFault::Ill(node, errors[chance.index(errors.len())]),
        }
    }

    async fn suffer(&self, fault: ClusterFault, network: &Network, mut chance: Chance) {
        let for_a_while = chance.millis(20..1_500);
        let cluster = &self.cluster;
        match fault {
            ClusterFault::Host(node, state) => {
                network.set(&host(node), state);
                sleep(for_a_while).await;
                network.set(&host(node), HostState::Well);
            }
            ClusterFault::Cut(node) => network.cut(&host(node)),
            ClusterFault::FailOver(node) => {
                cluster.fail_over(node);
            }
            ClusterFault::Crash(node) => {
                network.set(&host(node), HostState::Gone);
                sleep(chance.millis(50..600)).await;
                cluster.fail_over(node);
                sleep(for_a_while).await;
                network.set(&host(node), HostState::Well);
            }
            ClusterFault::Die(node) => {
                if cluster.bury(node) {
                    network.bury(&host(node));
                }
            }
            ClusterFault::Move { slot, to } => {
                cluster.begin_move(slot, to);
                sleep(for_a_while / 2).await;
                cluster.arrive(slot);
                sleep(for_a_while / 2).await;
                cluster.end_move(slot);
            }
            ClusterFault::FlushScript(node) => cluster.flush_script(node),
            ClusterFault::Ill(node, error) => {
                cluster.make_ill(node, Some(error));
                sleep(for_a_while).await;
                cluster.make_ill(node, None);
            }
            ClusterFault::Forget(node) => {
                cluster.forget(node);
                sleep(for_a_while).await;
            }
        }
        // Everybody hears of it sooner or later.
        for node in 0..NODES {
            sleep(chance.millis(0..80)).await;
            cluster.tell(node);
        }
    }
}

#[test]
fn a_cluster_under_faults() {
    play_all::<ClusterWorld>(120, 9);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    is_told_twice::<ClusterWorld>();
}

/// A node that is gone or frozen harms only its own keys.
#[test]
fn the_others_go_on() {
    schedules(100, |seed| {
        let mut chance = Chance::new(seed);
        let node = chance.index(3);
        let states = [HostState::Frozen, HostState::Gone, HostState::Unreachable];
        let (state, lasts) = (states[chance.index(states.len())], chance.millis(300..3_000));
        in_virtual_time(async {
            let world = ClusterWorld::new();
            let (network, _unplug) = Network::build(world.machines(), &ClusterWorld::hosts(), seed);
            let (callers, begins) = (Callers::new(&ClusterWorld::url(), keys()), Duration::from_secs(1));
            let asking = callers.start(4, seed, begins + lasts);
            sleep(begins).await;
            network.set(&host(node), state);
            for asker in asking {
                asker.await.unwrap();
            }
            let (mut harmed, mut asked) = (0, 0);
            for question in callers.take_questions() {
                let is_there = world.cluster.owner(slot::of(question.key.as_bytes())) == node;
                asked += u32::from(!is_there);
                // At first everybody waits for the map and for connections.
                if question.asked >= begins / 2 && matches!(question.outcome, Some(Err(_))) {
                    assert!(is_there, "seed {seed}: {state:?} {node}: {question:?}");
                    harmed += 1;
                }
            }
            assert!(asked > 20 && harmed > 0, "seed {seed}: {asked} of others, {harmed} harmed");
        });
    });
}
