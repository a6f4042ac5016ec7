//! Which fault happens when, for how long and to whom: a function of the seed and of nothing else, so that a run can be
//! repeated.

use std::fmt;
use std::time::Duration;

use test_support::random::Random;

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

    /// The shortest and the longest that it is inflicted, in milliseconds.
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

    /// How long it takes after that until everything is whole again: servers have started, files were read, a replica has
    /// taken over and the old master follows it. What comes next is planned after it.
    fn recovery(self, store: StoreKind) -> Duration {
        Duration::from_millis(match (self, store) {
            // A primary is taken for dead after four seconds; then there is a vote.
            (Fault::NodeKilled, StoreKind::Cluster) => 8_000,
            (Fault::NodeKilled, StoreKind::Sentinel) => 5_000,
            (Fault::NodeFrozen, StoreKind::Sentinel) => 4_000,
            (Fault::NodeFrozen, StoreKind::Cluster) | (Fault::FailoverPlanned, StoreKind::Sentinel) => 3_000,
            (Fault::FailoverPlanned, _) => 2_000,
            (Fault::InstanceKilled | Fault::NodeKilled | Fault::SlotMoved, _)
            | (Fault::PlansChanged | Fault::PlansBroken | Fault::CertificateChanged, _)
            | (Fault::InstanceClock, StoreKind::Memory) => 1_000,
            _ => 0,
        })
    }

    /// Whether it ends a server that is to grow old, so that its memory can be looked at for minutes: the one in memory
    /// in the second half of a long turn. With a Redis it is the first server that is never killed.
    fn is_spared(self, store: StoreKind, at: Duration, length: Duration) -> bool {
        let kills = matches!(self, Fault::InstanceKilled | Fault::InstanceClock);
        store == StoreKind::Memory && kills && length >= AGEING && at > length / 2
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

/// Before the first fault of a lane, and between two: so long that everybody is back, most of the time. In milliseconds.
const CALM: (u64, u64) = (1_500, 6_000);

/// In a short turn, before the first fault of clients, before the first of servers and nodes, and between two: before
/// anything holds limits up, they are looked at for three seconds.
const SHORT_CALM: [(u64, u64); 3] = [(500, 1_000), (3_800, 4_000), (1_000, 1_500)];

/// A turn of less is a short one: every fault is as short as it can be.
const SHORT: Duration = Duration::from_secs(30);

/// In a turn of so long, servers grow old.
const AGEING: Duration = Duration::from_secs(120);

/// At the end of every minute nothing happens for so long: what is looked at only after a while of calm is looked at then.
const MINUTE: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_secs(15);

/// How long a turn goes on after its last fault, so that its end is looked at, too: longer than clients may notice it. A
/// short turn ends when everybody is served again.
pub(crate) fn rest(length: Duration) -> Duration {
    if length < SHORT { Duration::from_millis(1_500) } else { Duration::from_secs(5) }
}

/// When something that takes so long may begin, without being in a quiet time.
fn after_quiet(at: Duration, takes: Duration) -> Duration {
    let minute = at.as_secs() / MINUTE.as_secs();
    let ends = MINUTE * u32::try_from(minute + 1).unwrap_or(u32::MAX);
    if at + takes > ends - QUIET { ends.max(at) } else { at }
}

/// The faults of one turn on one store, in the order of their beginnings.
pub(crate) fn schedule(seed: u64, turn: u64, store: StoreKind, length: Duration) -> Vec<Planned> {
    let mut all: Vec<Planned> = Vec::new();
    let is_short = length < SHORT;
    for (number, lane) in (0..).zip(Lane::ALL) {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(turn * 16 + number));
        let mut kinds: Vec<Fault> = Fault::ALL.into_iter().collect();
        kinds.retain(|fault| fault.lane() == lane && fault.is_for(store));
        if kinds.is_empty() {
            continue;
        }
        let mut draw = |(least, most): (u64, u64)| least + random.below(most - least + 1);
        let (mut at, mut deck): (Duration, Vec<Fault>) = (Duration::ZERO, Vec::new());
        let [of_clients, first, between] = if is_short { SHORT_CALM } else { [CALM; 3] };
        let mut calm = if lane == Lane::Clients { of_clients } else { first };
        loop {
            at += Duration::from_millis(draw(calm));
            calm = between;
            // Every kind once before any comes again, in an order of its own.
            if deck.is_empty() {
                deck.clone_from(&kinds);
            }
            let is_whole = deck.len() == kinds.len();
            let mut next = None;
            while next.is_none() && !deck.is_empty() {
                let place = usize::try_from(draw((0, deck.len() as u64 - 1))).unwrap();
                let fault = deck.remove(place);
                let (least, most) = fault.lengths();
                let lasts = Duration::from_millis(draw((least, if is_short { least } else { most })));
                let on = usize::try_from(draw((0, 11))).unwrap();
                let is_first_spared = fault == Fault::InstanceKilled && store != StoreKind::Memory;
                let on = if is_first_spared { 1 + on % (store.instances() - 1) } else { on };
                let offsets = fault.offsets(store);
                let offset = offsets[usize::try_from(draw((0, offsets.len() as u64 - 1))).unwrap()];
                let takes = lasts + fault.recovery(store);
                let at = after_quiet(at, takes);
                // What is too long for what is left of the turn is passed over.
                if at + takes + rest(length) <= length && !fault.is_spared(store, at, length) {
                    next = Some(Planned { at, length: lasts, fault, on, offset });
                }
            }
            match next {
                Some(planned) => {
                    at = planned.at + planned.length + planned.fault.recovery(store);
                    all.push(planned);
                }
                None if is_whole => break,
                None => {}
            }
        }
    }
    all.sort_by_key(|planned| planned.at);
    all
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
        for (seed, length) in (0..50).flat_map(|seed| [(seed, MINUTES), (seed, Duration::from_secs(8))]) {
            for store in StoreKind::ALL {
                let planned = schedule(seed, 3, store, length);
                let end = |one: &Planned| one.at + one.length + one.fault.recovery(store);
                for lane in Lane::ALL {
                    let of_lane: Vec<_> =
                        planned.iter().filter(|planned| planned.fault.lane() == lane).collect();
                    assert!(of_lane.windows(2).all(|two| end(two[0]) < two[1].at), "seed {seed}");
                    assert!(of_lane.iter().all(|one| end(one) + rest(length) <= length), "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn every_minute_ends_with_a_quiet_time() {
        for seed in 0..50 {
            for store in StoreKind::ALL {
                for one in schedule(seed, 0, store, MINUTES) {
                    let end = one.at + one.length + one.fault.recovery(store);
                    let minute = MINUTE * u32::try_from(one.at.as_secs() / 60 + 1).unwrap();
                    assert!(end + QUIET <= minute, "seed {seed}, {store:?}: {one}");
                }
            }
        }
    }

    #[test]
    fn one_server_grows_old_in_a_long_turn() {
        for seed in 0..50 {
            let kills = |one: &Planned| matches!(one.fault, Fault::InstanceKilled | Fault::InstanceClock);
            let last = schedule(seed, 0, StoreKind::Memory, MINUTES).into_iter().rfind(kills).unwrap();
            assert!(last.at <= MINUTES / 2, "seed {seed}: {last}");
            for one in schedule(seed, 0, StoreKind::Redis, MINUTES) {
                assert!(one.fault != Fault::InstanceKilled || one.on % 4 != 0, "seed {seed}: {one}");
            }
        }
    }

    #[test]
    fn a_short_turn_has_faults_of_every_lane() {
        for seed in 0..50 {
            for store in StoreKind::ALL {
                let planned = schedule(seed, 0, store, Duration::from_secs(8));
                for lane in
                    Lane::ALL.into_iter().filter(|lane| *lane != Lane::Nodes || store != StoreKind::Memory)
                {
                    assert!(
                        planned.iter().any(|one| one.fault.lane() == lane),
                        "seed {seed}, {store:?}, {lane:?}"
                    );
                }
                let holds_up = planned.iter().filter(|one| one.fault.lane() != Lane::Clients);
                assert!(holds_up.map(|one| one.at).min().unwrap() >= Duration::from_millis(3_800));
            }
        }
    }
}
