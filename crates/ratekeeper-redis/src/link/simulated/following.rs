//! A master that moves, and what callers may expect of the link that follows it.

use std::sync::Arc;

use tokio::time::sleep;

use super::chance::Chance;
use super::master::{NAME, SENTINELS, SERVERS, SimulatedMaster, sentinel, server};
use super::network::{HostState, Machines, Network};
use super::story::{Suffering, is_told_twice, play_all};

/// Something that goes wrong, for a while.
#[derive(Clone, Copy, Debug)]
enum MasterFault {
    Host(HostName, HostState),
    Cut(HostName),
    /// Another server becomes the master; the old one is a replica then.
    FailOver {
        to: usize,
        by: usize,
        is_told: bool,
    },
    /// As before, and the old one was gone.
    Crash {
        to: usize,
        by: usize,
        is_told: bool,
    },
    /// A server is ordered to become the master, and never does.
    Abort {
        to: usize,
        by: usize,
    },
    FlushScript(usize),
    Ill(usize, &'static str),
}

#[derive(Clone, Copy, Debug)]
enum HostName {
    Server(usize),
    Sentinel(usize),
}

impl HostName {
    fn get(self) -> String {
        match self {
            HostName::Server(at) => server(at),
            HostName::Sentinel(at) => sentinel(at),
        }
    }
}

/// A master, servers and sentinels, and what happens to them. One failover at a time: sentinels agree on each.
struct MasterWorld {
    master: Arc<SimulatedMaster>,
    failing_over: tokio::sync::Mutex<()>,
}

impl Suffering for MasterWorld {
    type Fault = MasterFault;

    /// A server that is being promoted is looked at each 10 ms.
    const MOST_ATTEMPTS: u64 = 120;

    fn new() -> Self {
        MasterWorld { master: Arc::new(SimulatedMaster::new()), failing_over: tokio::sync::Mutex::default() }
    }

    fn machines(&self) -> Arc<dyn Machines> {
        Arc::clone(&self.master) as _
    }

    fn hosts() -> Vec<String> {
        (0..SERVERS).map(server).chain((0..SENTINELS).map(sentinel)).collect()
    }

    fn url() -> String {
        format!("redis-sentinel://{},{},{}/{NAME}", sentinel(0), sentinel(1), sentinel(2))
    }

    fn executed(&self, number: u64) -> u32 {
        self.master.executed(number)
    }

    fn draw(chance: &mut Chance) -> MasterFault {
        let (to, by, is_told) = (chance.index(SERVERS), chance.index(SENTINELS), !chance.once_in(4));
        let name = if chance.once_in(2) { HostName::Server(to) } else { HostName::Sentinel(by) };
        let states = [HostState::Frozen, HostState::Gone, HostState::Unreachable, HostState::Slow];
        let errors =
            ["LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down"];
        match chance.within(0..10) {
            0 | 1 => MasterFault::Host(name, states[chance.index(states.len())]),
            2 => MasterFault::Cut(name),
            3 | 4 => MasterFault::FailOver { to, by, is_told },
            5 | 6 => MasterFault::Crash { to, by, is_told },
            7 => MasterFault::Abort { to, by },
            8 => MasterFault::FlushScript(to),
            _ => MasterFault::Ill(to, errors[chance.index(errors.len())]),
        }
    }

    async fn suffer(&self, fault: MasterFault, network: &Network, mut chance: Chance) {
        let (master, for_a_while) = (&self.master, chance.millis(20..1_500));
        match fault {
            MasterFault::Host(name, state) => {
                network.set(&name.get(), state);
                sleep(for_a_while).await;
                network.set(&name.get(), HostState::Well);
            }
            MasterFault::Cut(name) => network.cut(&name.get()),
            MasterFault::FailOver { to, by, is_told } => {
                let Ok(_one) = self.failing_over.try_lock() else { return };
                let old = master.master();
                if old != to {
                    self.promote(to, by, is_told, &mut chance).await;
                    sleep(chance.millis(0..300)).await;
                    master.turn(old, false);
                    self.spread(to, &mut chance).await;
                }
            }
            MasterFault::Crash { to, by, is_told } => {
                let Ok(_one) = self.failing_over.try_lock() else { return };
                let old = master.master();
                if old != to {
                    network.set(&server(old), HostState::Gone);
                    sleep(chance.millis(50..600)).await;
                    self.promote(to, by, is_told, &mut chance).await;
                    self.spread(to, &mut chance).await;
                    sleep(for_a_while / 2).await;
                    // It comes back as what it was, until somebody tells it.
                    network.set(&server(old), HostState::Well);
                    sleep(chance.millis(0..300)).await;
                    master.turn(old, false);
                }
            }
            MasterFault::Abort { to, by } => {
                let Ok(_one) = self.failing_over.try_lock() else { return };
                if master.master() != to {
                    master.order(by, to);
                    sleep(for_a_while / 2).await;
                    master.abort(by);
                }
            }
            MasterFault::FlushScript(at) => master.flush_script(at),
            MasterFault::Ill(at, error) => {
                master.make_ill(at, Some(error));
                sleep(for_a_while).await;
                master.make_ill(at, None);
            }
        }
    }
}

impl MasterWorld {
    async fn promote(&self, to: usize, by: usize, is_told: bool, chance: &mut Chance) {
        if is_told {
            self.master.order(by, to);
        }
        sleep(chance.millis(0..200)).await;
        self.master.turn(to, true);
        sleep(chance.millis(0..400)).await;
        self.master.switch(by, to);
    }

    async fn spread(&self, master: usize, chance: &mut Chance) {
        for other in 0..SENTINELS {
            sleep(chance.millis(0..100)).await;
            self.master.learn(other, master);
        }
    }
}

#[test]
fn a_master_that_moves() {
    play_all::<MasterWorld>(120, 7);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    is_told_twice::<MasterWorld>();
}
