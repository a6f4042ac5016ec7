//! Which fault happens when, for how long and to whom: a function of the seed and of nothing else, so that a run can be
//! repeated.

use std::fmt;
use std::time::Duration;

use crate::random::Random;

/// Where the servers keep what they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// In the one server, with a file of state.
    Memory,
    /// Four servers on one Redis.
    Redis,
    /// Four on a cluster of three primaries with a replica each.
    Cluster,
    /// Four on a master and its replica, watched by three sentinels.
    Sentinel,
}

impl StoreKind {
    pub(crate) const ALL: [StoreKind; 4] =
        [StoreKind::Memory, StoreKind::Redis, StoreKind::Cluster, StoreKind::Sentinel];

    /// How many servers there are.
    pub(crate) fn instances(self) -> usize {
        if self == StoreKind::Memory { 1 } else { 4 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            StoreKind::Memory => "memory",
            StoreKind::Redis => "redis",
            StoreKind::Cluster => "cluster",
            StoreKind::Sentinel => "sentinel",
        }
    }
}

/// What goes wrong, or is done to it by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// `kill -9`, and a start some time later.
    InstanceKilled,
    /// SIGSTOP, and SIGCONT some time later.
    InstanceFrozen,
    /// Its wall clock steps; a server with its state in memory is killed and started again under the new one.
    InstanceClock,
    /// The file of plans is exchanged for one with another limit and one more plan, and back.
    PlansChanged,
    /// The file is exchanged for one that is wrong, and back.
    PlansBroken,
    /// The certificate of the one encrypted server is exchanged.
    CertificateChanged,
    /// No room is left where the state is written.
    DiskFull,
    /// The Redis, the master, or one of the primaries is killed, and starts again.
    NodeKilled,
    /// The same stands still for a while.
    NodeFrozen,
    /// A replica takes over by plan.
    FailoverPlanned,
    /// The slot of a busy key goes to another node.
    SlotMoved,
    /// `FLUSHALL` on every primary.
    DataFlushed,
    /// `SCRIPT FLUSH` on every primary.
    ScriptsFlushed,
    /// The wall clocks of all nodes step.
    NodeClock,
    /// Clients that ask without end, and never read an answer.
    DeafClients,
    /// Clients that send one byte a second.
    SlowClients,
    /// Clients that send half a request, and then nothing.
    SilentClients,
}

/// Faults of different lanes happen at the same time, those of one lane one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Instances,
    Nodes,
    Clients,
}

impl Lane {
    pub(crate) const ALL: [Lane; 3] = [Lane::Instances, Lane::Nodes, Lane::Clients];
}

impl Fault {
    pub(crate) const ALL: [Fault; 17] = [
        Fault::InstanceKilled,
        Fault::InstanceFrozen,
        Fault::InstanceClock,
        Fault::PlansChanged,
        Fault::PlansBroken,
        Fault::CertificateChanged,
        Fault::DiskFull,
        Fault::NodeKilled,
        Fault::NodeFrozen,
        Fault::FailoverPlanned,
        Fault::SlotMoved,
        Fault::DataFlushed,
        Fault::ScriptsFlushed,
        Fault::NodeClock,
        Fault::DeafClients,
        Fault::SlowClients,
        Fault::SilentClients,
    ];

    pub(crate) fn lane(self) -> Lane {
        use Fault::{
            CertificateChanged, DeafClients, DiskFull, InstanceClock, InstanceFrozen, InstanceKilled,
            PlansBroken, PlansChanged, SilentClients, SlowClients,
        };
        match self {
            InstanceKilled | InstanceFrozen | InstanceClock | PlansChanged | PlansBroken
            | CertificateChanged | DiskFull => Lane::Instances,
            DeafClients | SlowClients | SilentClients => Lane::Clients,
            _ => Lane::Nodes,
        }
    }

    fn is_for(self, store: StoreKind) -> bool {
        match self {
            Fault::DiskFull => store == StoreKind::Memory,
            Fault::CertificateChanged => store != StoreKind::Memory,
            Fault::SlotMoved => store == StoreKind::Cluster,
            Fault::FailoverPlanned => matches!(store, StoreKind::Cluster | StoreKind::Sentinel),
            _ => self.lane() != Lane::Nodes || store != StoreKind::Memory,
        }
    }

    /// The shortest and the longest that it lasts, in milliseconds.
    fn lengths(self) -> (u64, u64) {
        match self {
            Fault::InstanceKilled => (200, 2_000),
            Fault::InstanceFrozen => (300, 3_000),
            Fault::InstanceClock | Fault::NodeClock => (1_500, 3_000),
            Fault::PlansChanged | Fault::PlansBroken | Fault::CertificateChanged => (1_000, 2_500),
            Fault::DiskFull => (2_500, 5_000),
            Fault::NodeKilled => (300, 2_500),
            Fault::NodeFrozen => (300, 6_000),
            Fault::FailoverPlanned | Fault::SlotMoved | Fault::DataFlushed | Fault::ScriptsFlushed => (0, 0),
            Fault::DeafClients | Fault::SlowClients | Fault::SilentClients => (2_000, 6_000),
        }
    }

    /// By how many milliseconds a clock is off from then on, of one of these.
    fn offsets(self, store: StoreKind) -> &'static [i64] {
        match (self, store) {
            // The clocks of instances do not matter beside a Redis, whatever they show.
            (Fault::InstanceClock, StoreKind::Memory) => &[-3_600_000, -5_000, -900, -500, 0, 500, 2_000],
            (Fault::InstanceClock, _) => &[-3_600_000, -900, 0, 900, 3_600_000],
            // Nodes take each other for dead by the same clock: they are not to be.
            (Fault::NodeClock, StoreKind::Cluster | StoreKind::Sentinel) => &[-900, -500, 0, 500, 900],
            (Fault::NodeClock, _) => &[-5_000, -900, -500, 0, 500, 3_000],
            _ => &[0],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::InstanceKilled => "instance killed",
            Fault::InstanceFrozen => "instance frozen",
            Fault::InstanceClock => "instance clock stepped",
            Fault::PlansChanged => "plans changed",
            Fault::PlansBroken => "plans broken",
            Fault::CertificateChanged => "certificate changed",
            Fault::DiskFull => "disk full",
            Fault::NodeKilled => "node killed",
            Fault::NodeFrozen => "node frozen",
            Fault::FailoverPlanned => "failover planned",
            Fault::SlotMoved => "slot moved",
            Fault::DataFlushed => "data flushed",
            Fault::ScriptsFlushed => "scripts flushed",
            Fault::NodeClock => "node clocks stepped",
            Fault::DeafClients => "deaf clients",
            Fault::SlowClients => "slow clients",
            Fault::SilentClients => "silent clients",
        }
    }
}

/// One fault of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Since the turn began.
    pub(crate) at: Duration,
    pub(crate) length: Duration,
    pub(crate) fault: Fault,
    /// The instance, or a number by which a node is chosen.
    pub(crate) on: usize,
    /// What a clock is off by from then on, in milliseconds.
    pub(crate) offset: i64,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Planned { at, length, fault, on, offset } = self;
        write!(f, "{:6.1} s  {} (on {on}", at.as_secs_f64(), fault.name())?;
        if !length.is_zero() {
            write!(f, ", for {:.1} s", length.as_secs_f64())?;
        }
        if matches!(fault, Fault::InstanceClock | Fault::NodeClock) {
            write!(
                f,
                ", {:+.1} s off",
                Duration::from_millis(offset.unsigned_abs()).as_secs_f64() * offset.signum() as f64
            )?;
        }
        f.write_str(")")
    }
}

/// Before the first fault of a lane, and between two: so long that everybody is back, most of the time.
const CALM: (u64, u64) = (1_500, 6_000);

/// After the last one, so that its end is looked at, too.
const REST: Duration = Duration::from_secs(5);

/// The faults of one turn on one store, in the order of their beginnings.
pub(crate) fn schedule(seed: u64, turn: u64, store: StoreKind, length: Duration) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for (number, lane) in (0..).zip(Lane::ALL) {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(turn * 16 + number));
        let mut kinds: Vec<Fault> = Fault::ALL.into_iter().collect();
        kinds.retain(|fault| fault.lane() == lane && fault.is_for(store));
        if kinds.is_empty() {
            continue;
        }
        let mut draw = |(least, most): (u64, u64)| least + random.below(most - least + 1);
        let (mut at, mut deck) = (Duration::ZERO, Vec::new());
        loop {
            at += Duration::from_millis(draw(CALM));
            // Every kind once before any comes again, in an order of its own.
            if deck.is_empty() {
                deck.clone_from(&kinds);
            }
            let place = usize::try_from(draw((0, deck.len() as u64 - 1))).unwrap();
            let fault = deck.remove(place);
            let lasts = Duration::from_millis(draw(fault.lengths()));
            let on = usize::try_from(draw((0, 11))).unwrap();
            let offsets = fault.offsets(store);
            let offset = offsets[usize::try_from(draw((0, offsets.len() as u64 - 1))).unwrap()];
            if at + lasts + REST > length {
                break;
            }
            planned.push(Planned { at, length: lasts, fault, on, offset });
            at += lasts;
        }
    }
    planned.sort_by_key(|planned| planned.at);
    planned
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: Duration = Duration::from_secs(300);

    #[test]
    fn a_seed_gives_the_same_schedule_twice_and_another_one_another() {
        for store in StoreKind::ALL {
            let planned = schedule(7, 0, store, MINUTES);
            assert_eq!(planned, schedule(7, 0, store, MINUTES));
            assert_ne!(planned, schedule(8, 0, store, MINUTES));
            assert_ne!(planned, schedule(7, 1, store, MINUTES));
        }
    }

    #[test]
    fn five_minutes_have_every_fault_that_the_store_can_have() {
        for store in StoreKind::ALL {
            let planned = schedule(1, 0, store, MINUTES);
            for fault in Fault::ALL.into_iter().filter(|fault| fault.is_for(store)) {
                assert!(planned.iter().any(|planned| planned.fault == fault), "{store:?}: no {fault:?}");
            }
        }
    }

    #[test]
    fn faults_of_a_lane_do_not_overlap_and_all_end_in_time() {
        for seed in 0..50 {
            let planned = schedule(seed, 3, StoreKind::Cluster, MINUTES);
            for lane in Lane::ALL {
                let of_lane: Vec<_> = planned.iter().filter(|planned| planned.fault.lane() == lane).collect();
                assert!(of_lane.windows(2).all(|two| two[0].at + two[0].length < two[1].at), "seed {seed}");
                assert!(of_lane.iter().all(|planned| planned.at + planned.length + REST <= MINUTES));
            }
        }
    }
}
