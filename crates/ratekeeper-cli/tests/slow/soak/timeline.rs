//! What has happened so far, and what the guides say that it can do to limits and clients.
//!
//! Instants are nanoseconds since the turn began.

use std::time::Duration;

use crate::soak::schedule::Fault;

/// An instant, or a length of time.
pub(crate) type Nanos = u64;

pub(crate) const SECOND: Nanos = 1_000_000_000;

/// As seconds, for people.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

/// How long after the end of a fault clients may still notice it: service is back within three seconds
/// (docs/guide/distributed.md), and a second more for the machine.
const TAIL: Nanos = 4 * SECOND;

/// The same where nothing is judged by the clock on the wall: so much longer that no busy machine breaks it.
const PATIENT_TAIL: Nanos = 10 * SECOND;

/// How long after the machine itself stood still they may.
const STALL_TAIL: Nanos = 2 * SECOND;

/// What a fault may do to what was counted: the whole of what may be admitted beside the quota, and no fault has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing is admitted that would not have been.
    Nothing,
    /// Every key starts fresh: a server that was flushed, or restarts without persistence
    /// (docs/guide/distributed.md, "What is not promised").
    Forgets,
    /// What was charged in so long a time before is forgotten: a server in memory is killed whose file of state is so old
    /// (docs/guide/operate.md, "What a crash can admit").
    ForgetsSince(Nanos),
    /// Writes that no replica has are lost: one more quota, and what refills until the last instance has left the old
    /// master (docs/guide/distributed.md, "When another master takes over").
    LosesWrites,
    /// The clock that decides went ahead by so much: that time has passed for the limits.
    Ahead(Nanos),
    /// It went back by more than a second: states are shortened to what the limits reach. That adds nothing, unless a limit is
    /// smaller at that time and larger later: then the difference (docs/guide/distributed.md, "When the server's clock steps
    /// back").
    Behind,
    /// Both: a server in memory that was killed, and whose clock went ahead meanwhile.
    ForgetsSinceAndAhead(Nanos, Nanos),
}

/// One fault that has happened.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) fault: Fault,
    /// The instance that it happened to; none if it was the store, or clients.
    pub(crate) instance: Option<usize>,
    pub(crate) began: Nanos,
    /// None while it lasts.
    pub(crate) ended: Option<Nanos>,
    pub(crate) effect: Effect,
}

impl Happened {
    /// Whether any of it lies in this span. A clock that went back is behind until it has caught up.
    fn is_within(&self, begin: Nanos, end: Nanos) -> bool {
        let tail = if self.effect == Effect::Behind { TAIL } else { 0 };
        self.began <= end && self.ended.is_none_or(|ended| ended + tail >= begin)
    }

    /// Whether good clients of an instance may get errors, or wait: not because of other clients, of files that were
    /// exchanged, of clocks, or of a store that was emptied.
    fn disturbs(&self, instance: usize) -> bool {
        match self.fault {
            Fault::InstanceKilled | Fault::InstanceFrozen | Fault::InstanceClock => {
                self.instance == Some(instance)
            }
            _ => self.takes_store_away(),
        }
    }

    /// Whether the store may fail meanwhile. One that was emptied, or whose clock has stepped, answers.
    fn takes_store_away(&self) -> bool {
        matches!(
            self.fault,
            Fault::NodeKilled | Fault::NodeFrozen | Fault::FailoverPlanned | Fault::SlotMoved
        )
    }

    /// Whether a limit may give less than it has meanwhile: answers get lost that took something, or a clock stepped back
    /// and nobody gets anything until it has caught up, which takes a refill and a second at most
    /// (docs/guide/distributed.md). Of several servers, one that is away holds no limit up.
    fn holds_up(&self, is_alone: bool) -> bool {
        let is_server = is_alone && self.instance.is_some_and(|instance| self.disturbs(instance));
        is_server || self.takes_store_away() || self.fault == Fault::NodeClock
    }
}

/// Everything that has happened in a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) happened: Vec<Happened>,
    /// When every good client had its first decision: until then servers make their first connections.
    pub(crate) started: Nanos,
    /// Whether nothing is judged by the clock on the wall.
    pub(crate) is_patient: bool,
    /// When the machine stood still, and this process with it.
    pub(crate) stalls: Vec<(Nanos, Nanos)>,
}

impl Timeline {
    /// Notes a fault before it is inflicted. Returns its number.
    pub(crate) fn begin(
        &mut self,
        fault: Fault,
        instance: Option<usize>,
        now: Nanos,
        effect: Effect,
    ) -> usize {
        self.happened.push(Happened { fault, instance, began: now, ended: None, effect });
        self.happened.len() - 1
    }

    /// The faults that have to do with a span, and may admit something.
    pub(crate) fn effects(&self, begin: Nanos, end: Nanos) -> impl Iterator<Item = &Happened> {
        self.happened.iter().filter(move |one| one.effect != Effect::Nothing && one.is_within(begin, end))
    }

    /// Whether limits may have been smaller than usual while this lasted.
    pub(crate) fn has_changed_plans(&self, meanwhile: &Happened) -> bool {
        let mut changes = self.happened.iter().filter(|one| one.fault == Fault::PlansChanged);
        changes.any(|one| meanwhile.is_within(one.began, one.ended.unwrap_or(Nanos::MAX)))
    }

    fn tail(&self) -> Nanos {
        if self.is_patient { PATIENT_TAIL } else { TAIL }
    }

    /// Whether clients of an instance may have noticed anything in this span.
    pub(crate) fn is_disturbed(&self, instance: usize, begin: Nanos, end: Nanos) -> bool {
        let from = begin.saturating_sub(self.tail());
        let by_fault = |one: &Happened| one.disturbs(instance) && one.is_within(from, end);
        begin < self.started || self.happened.iter().any(by_fault) || self.has_stalled(begin, end)
    }

    fn has_stalled(&self, begin: Nanos, end: Nanos) -> bool {
        self.stalls.iter().any(|(from, to)| *from <= end && *to + STALL_TAIL >= begin)
    }

    /// Whether the store may have failed in this span, so that failure modes answered: how much of it.
    pub(crate) fn without_store(&self, begin: Nanos, end: Nanos) -> Vec<Nanos> {
        let faults = self.happened.iter().filter(|one| one.takes_store_away());
        let faults = faults.map(|one| (one.began, one.ended.unwrap_or(end) + self.tail()));
        let stalls = self.stalls.iter().map(|(from, to)| (*from, to + STALL_TAIL));
        let all = faults.chain(stalls).chain([(0, self.started)]);
        all.filter(|(from, to)| *from <= end && *to >= begin)
            .map(|(from, to)| to.min(end) - from.max(begin).min(to.min(end)))
            .collect()
    }

    /// When clients of an instance could last have been disturbed, the tail not counted; `now` while they are.
    pub(crate) fn last_disturbance(&self, instance: usize, now: Nanos) -> Nanos {
        let faults = self.happened.iter().filter(|one| one.disturbs(instance));
        let faults = faults.map(|one| one.ended.unwrap_or(now));
        faults.chain(self.stalls.iter().map(|(_, to)| *to)).max().unwrap_or(0).max(self.started)
    }

    /// Whether something has happened in this span that may keep a limit from giving what it has, of one server alone or
    /// of several.
    pub(crate) fn is_held_up(&self, begin: Nanos, end: Nanos, is_alone: bool) -> bool {
        let from = begin.saturating_sub(self.tail());
        let by_fault = |one: &Happened| one.holds_up(is_alone) && one.is_within(from, end);
        begin < self.started || self.happened.iter().any(by_fault) || self.has_stalled(begin, end)
    }

    /// When the last fault was over; none while one lasts.
    pub(crate) fn last_end(&self) -> Option<Nanos> {
        self.happened.iter().map(|one| one.ended).try_fold(self.started, |last, end| Some(last.max(end?)))
    }

    /// The history as lines, for who has to find out what went wrong.
    pub(crate) fn lines(&self) -> Vec<String> {
        let of = |one: &Happened| {
            let ended =
                one.ended.map_or_else(|| "lasts".to_owned(), |ended| format!("to {:.2} s", seconds(ended)));
            let on = one.instance.map(|instance| format!(" of instance {instance}")).unwrap_or_default();
            format!("{:7.2} s {ended}: {}{on}, {:?}", seconds(one.began), one.fault.name(), one.effect)
        };
        let stall = |(from, to): &(Nanos, Nanos)| {
            format!("{:7.2} s to {:.2} s: the machine stood still", seconds(*from), seconds(*to))
        };
        self.happened.iter().map(of).chain(self.stalls.iter().map(stall)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fault: Fault, instance: Option<usize>) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.begin(fault, instance, 20 * SECOND, Effect::Nothing);
        timeline.happened[0].ended = Some(21 * SECOND);
        timeline
    }

    #[test]
    fn only_what_can_take_the_store_away_or_hold_a_limit_up_does() {
        let soon = (22 * SECOND, 23 * SECOND);
        for fault in [Fault::DataFlushed, Fault::ScriptsFlushed, Fault::PlansBroken, Fault::DeafClients] {
            let timeline = of(fault, None);
            assert!(!timeline.is_held_up(soon.0, soon.1, true), "{fault:?}");
            assert_eq!(timeline.without_store(soon.0, soon.1), [0; 0], "{fault:?}");
        }
        for fault in [Fault::NodeKilled, Fault::NodeFrozen, Fault::FailoverPlanned, Fault::SlotMoved] {
            let timeline = of(fault, None);
            assert!(timeline.is_held_up(soon.0, soon.1, false), "{fault:?}");
            assert_eq!(timeline.without_store(soon.0, soon.1), [SECOND], "{fault:?}");
            let later = (26 * SECOND, 27 * SECOND);
            assert!(!timeline.is_held_up(later.0, later.1, false), "{fault:?}");
            assert_eq!(timeline.without_store(later.0, later.1), [0; 0], "{fault:?}");
        }
        let clock = of(Fault::NodeClock, None);
        assert!(clock.is_held_up(soon.0, soon.1, false));
        assert_eq!(clock.without_store(soon.0, soon.1), [0; 0]);
        let killed = of(Fault::InstanceKilled, Some(1));
        assert!(killed.is_held_up(soon.0, soon.1, true));
        assert!(!killed.is_held_up(soon.0, soon.1, false), "the others go on");
        assert!(killed.is_disturbed(1, soon.0, soon.1) && !killed.is_disturbed(0, soon.0, soon.1));
    }

    #[test]
    fn the_last_end_is_known_when_everything_is_over() {
        let mut timeline = of(Fault::NodeKilled, None);
        assert_eq!(timeline.last_end(), Some(21 * SECOND));
        timeline.begin(Fault::DeafClients, None, 22 * SECOND, Effect::Nothing);
        assert_eq!(timeline.last_end(), None);
        assert_eq!(Timeline { started: 5, ..Timeline::default() }.last_end(), Some(5));
    }
}
