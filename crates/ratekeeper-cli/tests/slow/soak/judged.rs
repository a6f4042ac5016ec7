//! How often each invariant was judged, and how often what had happened excused it. A run without a finding that has
//! judged nothing says nothing: so it is printed, and has a floor.

use std::collections::BTreeMap;

pub(crate) const ADMITTED: &str = "admitted in a span";
pub(crate) const HELD_BACK: &str = "held back";
pub(crate) const HELD_AT_ONCE: &str = "held at once";
pub(crate) const ERROR: &str = "an error while nothing is wrong";
pub(crate) const PROMISE: &str = "a promise that was not kept";
pub(crate) const LONGEST: &str = "longest reply, s";
pub(crate) const P99: &str = "99 of 100 replies, s";
pub(crate) const SILENCE: &str = "silence, s";
pub(crate) const DIED: &str = "a process ended by itself";
pub(crate) const PANICKED: &str = "a panic";
pub(crate) const SNAPSHOT_AGE: &str = "age of the snapshot at a kill, s";
pub(crate) const MEMORY: &str = "memory, MiB";
pub(crate) const GROWTH: &str = "growth of memory, MiB";
pub(crate) const DESCRIPTORS: &str = "descriptors";
pub(crate) const THREADS: &str = "threads";
pub(crate) const METRICS: &str = "sums of clients and of /metrics";
pub(crate) const STATS: &str = "sums of /v1/stats and of /metrics";
pub(crate) const DONE: &str = "what was done did not work";
/// No invariant, but what a fault is for: those deaf clients for which the server had to wait.
pub(crate) const DEAF: &str = "deaf clients that filled what there was to fill";
/// What is wrong with a turn that is below a floor.
pub(crate) const TOO_SELDOM: &str = "judged too seldom";

/// How often each of these must have been judged in every turn, however short. A turn that is over goes on until it has
/// been, for a while. At its end, both pages of sums are compared in any case.
pub(crate) const FLOORS: [(&str, u64); 8] = [
    (ADMITTED, 30),
    (HELD_BACK, 3),
    (HELD_AT_ONCE, 3),
    (ERROR, 200),
    (PROMISE, 3),
    (DIED, 3),
    (MEMORY, 3),
    (METRICS, 2),
];

/// How often something was judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JudgedCount {
    pub(crate) judged: u64,
    /// How often not, because of what had happened; of bounds on admissions, how often these were raised by it.
    pub(crate) excused: u64,
}

/// All of them, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct JudgedCounts(BTreeMap<&'static str, JudgedCount>);

impl JudgedCounts {
    /// Counts one that was judged, or was not.
    pub(crate) fn add(&mut self, invariant: &'static str, is_judged: bool) {
        let count = self.0.entry(invariant).or_default();
        if is_judged {
            count.judged += 1;
        } else {
            count.excused += 1;
        }
    }

    /// Adds those that others have counted.
    pub(crate) fn add_all(&mut self, others: &JudgedCounts) {
        for (invariant, other) in &others.0 {
            let count = self.0.entry(*invariant).or_default();
            count.judged += other.judged;
            count.excused += other.excused;
        }
    }

    pub(crate) fn of(&self, invariant: &str) -> JudgedCount {
        self.0.get(invariant).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, JudgedCount)> {
        self.0.iter().map(|(invariant, count)| (*invariant, *count))
    }

    /// What is below its floor, with its figures.
    pub(crate) fn too_seldom(&self) -> Vec<String> {
        let below = FLOORS.iter().filter(|(invariant, least)| self.of(invariant).judged < *least);
        below
            .map(|(invariant, least)| {
                let JudgedCount { judged, excused } = self.of(invariant);
                format!("`{invariant}`: {judged} times, and {excused} times excused; at least {least}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_judged_is_below_every_floor() {
        let mut counts = JudgedCounts::default();
        assert_eq!(counts.too_seldom().len(), FLOORS.len());
        for (invariant, least) in FLOORS {
            (0..least).for_each(|_| counts.add(invariant, true));
        }
        assert_eq!(counts.too_seldom(), [""; 0]);
    }

    #[test]
    fn an_excuse_does_not_count() {
        let mut counts = JudgedCounts::default();
        for (invariant, least) in FLOORS {
            (0..least).for_each(|_| counts.add(invariant, invariant != PROMISE));
        }
        assert_eq!(
            counts.too_seldom(),
            ["`a promise that was not kept`: 0 times, and 3 times excused; at least 3"]
        );
        let mut more = JudgedCounts::default();
        (0..3).for_each(|_| more.add(PROMISE, true));
        counts.add_all(&more);
        assert_eq!(counts.too_seldom(), [""; 0]);
        assert_eq!(counts.of(PROMISE), JudgedCount { judged: 3, excused: 3 });
    }
}
