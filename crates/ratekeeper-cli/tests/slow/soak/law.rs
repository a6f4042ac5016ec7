//! What may be admitted of a shared key in any span, with everything that has happened.

use ratekeeper::Quota;

use crate::soak::timeline::{Effect, Nanos, SECOND, Timeline};
use test_support::bound::{Admission, Bound};

/// The limits of one key that everybody asks for.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    /// The plan, and the key.
    pub(crate) name: &'static str,
    bounds: Vec<Bound>,
    /// How long tokens may be kept that were taken ahead (docs/semantics.md §14).
    lease: Nanos,
    /// Whether each instance decides by itself while the store is away.
    is_local: bool,
    /// How much less the limit is while plans are changed.
    lowered_by: u64,
}

/// After a failover by plan, the last instance has left the old master within a second
/// (docs/guide/distributed.md, "When another master takes over").
const LEAVES_WITHIN: Nanos = SECOND;

impl Law {
    /// Of the rules of a plan; all of them hold.
    pub(crate) fn new(name: &'static str, quotas: &[&str]) -> Self {
        let bound = |text: &&str| Bound::of(&text.parse::<Quota>().unwrap());
        let bounds = quotas.iter().map(bound).collect();
        Law { name, bounds, lease: 0, is_local: false, lowered_by: 0 }
    }

    /// Of what is held and settled: a burst more may be in flight (docs/semantics.md §11).
    pub(crate) fn held(name: &'static str, burst: u64, a_second: u64) -> Self {
        let bound = Bound::Refill { burst: 2 * burst, count: a_second, period: SECOND };
        Law { bounds: vec![bound], ..Law::new(name, &[]) }
    }

    pub(crate) fn leased(self, lease: Nanos) -> Self {
        Law { lease, ..self }
    }

    pub(crate) fn local(self) -> Self {
        Law { is_local: true, ..self }
    }

    pub(crate) fn lowered(self, by: u64) -> Self {
        Law { lowered_by: by, ..self }
    }

    /// What refills in a second, if that goes on all the time.
    pub(crate) fn flow(&self) -> Option<u64> {
        match self.bounds.as_slice() {
            [Bound::Refill { count, period, .. }] if *period <= SECOND && self.lease == 0 => {
                Some(count * SECOND / period)
            }
            _ => None,
        }
    }

    /// The most in a span in which nothing happened.
    fn calm(&self, span: Nanos) -> u64 {
        self.bounds.iter().map(|bound| bound.within(span + self.lease)).min().unwrap_or(u64::MAX)
    }

    /// The most from `begin` to `end`, with what happened meanwhile, on so many instances.
    pub(crate) fn most(&self, begin: Nanos, end: Nanos, timeline: &Timeline, instances: usize) -> u64 {
        let span = end - begin;
        let mut ahead = 0;
        for one in timeline.effects(begin, end) {
            if let Effect::Ahead(by) | Effect::ForgetsSinceAndAhead(_, by) = one.effect {
                ahead += by;
            }
        }
        let of_bound = |bound: &Bound| {
            let mut most = bound.within(span + ahead + self.lease);
            for one in timeline.effects(begin, end) {
                most += match one.effect {
                    Effect::Nothing | Effect::Ahead(_) => 0,
                    Effect::Behind if timeline.has_changed_plans(one) => self.lowered_by,
                    Effect::Behind => 0,
                    // A whole capacity, and what instances hold in leases beside it.
                    Effect::Forgets => bound.at_least() + bound.within(self.lease) - bound.within(0),
                    Effect::ForgetsSince(age) | Effect::ForgetsSinceAndAhead(age, _) => once_more(bound, age),
                    Effect::LosesWrites => {
                        let lasted = one.ended.unwrap_or(end).saturating_sub(one.began);
                        once_more(bound, lasted + LEAVES_WITHIN + self.lease)
                    }
                };
            }
            most
        };
        let most = self.bounds.iter().map(of_bound).min().unwrap_or(u64::MAX);
        let local = || timeline.without_store(begin, end).iter().map(|away| self.calm(*away)).sum::<u64>();
        most + if self.is_local { local() * instances as u64 } else { 0 }
    }
}

/// One more quota, and what it gives in so long: what was charged in that time is charged once more. Of a window it is what
/// was counted in it, and in those that began meanwhile.
fn once_more(bound: &Bound, span: Nanos) -> u64 {
    match *bound {
        Bound::Windows { limit, period } | Bound::Log { limit, period } => limit * (span / period + 1),
        Bound::Refill { .. } | Bound::Fading { .. } => bound.within(span),
    }
}

/// The worst span that ends since an instant: what was admitted in it, and what might have been.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorstSpan {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    pub(crate) admitted: u64,
    pub(crate) most: u64,
    /// The most if nothing had happened.
    pub(crate) calm: u64,
}

impl WorstSpan {
    /// How much of the bound was used: more than 1 is a breach.
    pub(crate) fn usage(&self) -> f64 {
        self.admitted as f64 / self.most as f64
    }
}

/// Looks at every span that begins with a call and ends with one that was over since `since`. Calls are counted if the whole
/// call lies within the span (see [`test_support::bound`]).
pub(crate) fn worst_span(
    law: &Law,
    admissions: &[Admission],
    since: Nanos,
    timeline: &Timeline,
    instances: usize,
) -> Option<WorstSpan> {
    let mut latest_first: Vec<&Admission> = admissions.iter().collect();
    latest_first.sort_unstable_by_key(|admission| std::cmp::Reverse(admission.before));
    let mut ends: Vec<Nanos> =
        admissions.iter().map(|one| one.after).filter(|after| *after >= since).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut worst: Option<WorstSpan> = None;
    for end in ends {
        let mut admitted = 0;
        for admission in &latest_first {
            if admission.after > end {
                continue;
            }
            // What may have been given back within the span is not counted; what was before it makes no room.
            if admission.refunded.is_none_or(|at| at > end) {
                admitted += admission.cost;
            }
            let begin = admission.before;
            let used = worst.map_or(0.0, |worst| worst.usage());
            // What happened only adds: most spans need no more than the calm bound.
            let calm = law.calm(end - begin);
            if admitted as f64 <= used * calm as f64 {
                continue;
            }
            let most = law.most(begin, end, timeline, instances);
            let span = WorstSpan { begin, end, admitted, most, calm };
            if span.usage() > used {
                worst = Some(span);
            }
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::schedule::Fault;

    const MS: Nanos = 1_000_000;

    fn calls(times: &[u64]) -> Vec<Admission> {
        let call = |at: &u64| Admission { before: at * MS, after: (at + 1) * MS, cost: 1, refunded: None };
        times.iter().map(call).collect()
    }

    fn usage(law: &Law, times: &[u64], timeline: &Timeline) -> f64 {
        worst_span(law, &calls(times), 0, timeline, 4).unwrap().usage()
    }

    fn at(fault: Fault, from: u64, to: u64, effect: Effect) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.begin(fault, None, from * MS, effect);
        timeline.happened[0].ended = Some(to * MS);
        timeline
    }

    #[test]
    fn one_too_many_is_found() {
        let law = Law::new("gcra", &["10/s burst 3"]);
        assert!(usage(&law, &[0, 0, 0, 100, 200], &Timeline::default()) <= 1.0);
        assert!(usage(&law, &[0, 0, 0, 50, 100, 200], &Timeline::default()) > 1.0);
        let fixed = Law::new("fixed", &["3 per 1s fixed"]);
        assert!(usage(&fixed, &[0, 0, 0, 900, 900, 900], &Timeline::default()) <= 1.0, "two windows");
        assert!(usage(&fixed, &[0, 0, 0, 900, 900, 900, 900], &Timeline::default()) > 1.0);
        let log = Law::new("log", &["3 per 1s log"]);
        assert!(usage(&log, &[0, 0, 0, 900], &Timeline::default()) > 1.0);
    }

    #[test]
    fn both_rules_of_a_plan_hold() {
        let law = Law::new("pair", &["10/s burst 3", "4 per 10s log"]);
        assert!(usage(&law, &[0, 0, 0, 100], &Timeline::default()) <= 1.0);
        assert!(usage(&law, &[0, 0, 0, 100, 200], &Timeline::default()) > 1.0);
    }

    #[test]
    fn a_fault_pays_for_its_own_effect_once_and_where_it_was() {
        let law = Law::new("daily", &["3/day"]);
        let six = [0, 0, 0, 500, 500, 500];
        assert!(usage(&law, &six, &Timeline::default()) > 1.0);
        assert!(usage(&law, &six, &at(Fault::DataFlushed, 250, 260, Effect::Forgets)) <= 1.0);
        assert!(
            usage(&law, &[0, 0, 0, 500, 500, 500, 510], &at(Fault::DataFlushed, 250, 260, Effect::Forgets))
                > 1.0
        );
        assert!(
            usage(&law, &six, &at(Fault::DataFlushed, 700, 710, Effect::Forgets)) > 1.0,
            "it was not yet"
        );
        assert!(
            usage(&law, &six, &at(Fault::NodeFrozen, 250, 260, Effect::Nothing)) > 1.0,
            "it forgets nothing"
        );
        assert!(usage(&law, &six, &at(Fault::NodeKilled, 250, 260, Effect::LosesWrites)) <= 1.0);
    }

    #[test]
    fn a_crash_forgets_an_interval_and_a_clock_only_what_it_went_ahead() {
        let law = Law::new("gcra", &["10/s burst 3"]);
        let times = [0, 0, 0, 50, 50, 50];
        assert!(usage(&law, &times, &Timeline::default()) > 1.0);
        assert!(usage(&law, &times, &at(Fault::InstanceKilled, 10, 20, Effect::ForgetsSince(0))) <= 1.0);
        assert!(usage(&law, &times, &at(Fault::NodeClock, 10, 20, Effect::Ahead(300 * MS))) <= 1.0);
        assert!(usage(&law, &times, &at(Fault::NodeClock, 10, 20, Effect::Ahead(100 * MS))) > 1.0);
        assert!(
            usage(&law, &times, &at(Fault::NodeClock, 10, 20, Effect::Nothing)) > 1.0,
            "back mints nothing"
        );
    }

    #[test]
    fn a_clock_that_goes_back_under_a_smaller_limit_adds_the_difference() {
        let times = [0, 0, 0, 1, 1];
        let law = Law::new("changing", &["10/s burst 3"]);
        let mut timeline = at(Fault::NodeClock, 0, 1, Effect::Behind);
        assert!(usage(&law.clone().lowered(2), &times, &timeline) > 1.0, "it was never smaller");
        let changed = timeline.begin(Fault::PlansChanged, None, MS, Effect::Nothing);
        timeline.happened[changed].ended = Some(2 * MS);
        assert!(usage(&law.clone().lowered(2), &times, &timeline) <= 1.0);
        assert!(usage(&law.clone().lowered(1), &times, &timeline) > 1.0);
        assert!(usage(&law, &times, &timeline) > 1.0, "another limit");
    }

    #[test]
    fn a_lease_adds_what_refills_in_it_and_local_only_while_the_store_is_away() {
        let times = [0, 0, 0, 1];
        assert!(usage(&Law::new("a", &["10/s burst 3"]), &times, &Timeline::default()) > 1.0);
        assert!(
            usage(&Law::new("a", &["10/s burst 3"]).leased(100 * MS), &times, &Timeline::default()) <= 1.0
        );
        let local = Law::new("local", &["10/s burst 3"]).local();
        let later = |times: &[u64]| times.iter().map(|at| at + 10_000).collect::<Vec<u64>>();
        assert!(usage(&local, &later(&times), &Timeline::default()) > 1.0);
        let away = at(Fault::NodeFrozen, 10_000, 10_002, Effect::Nothing);
        assert!(usage(&local, &later(&[0, 0, 0, 1, 1, 1, 1, 1, 1]), &away) <= 1.0);
    }

    #[test]
    fn what_was_given_back_within_the_span_is_not_counted() {
        let law = Law::new("daily", &["3/day"]);
        let mut admissions = calls(&[0, 0, 0, 500]);
        assert!(worst_span(&law, &admissions, 0, &Timeline::default(), 1).unwrap().usage() > 1.0);
        admissions[0].refunded = Some(100 * MS);
        assert!(worst_span(&law, &admissions, 0, &Timeline::default(), 1).unwrap().usage() <= 1.0);
        admissions[0].refunded = Some(600 * MS);
        assert!(worst_span(&law, &admissions, 0, &Timeline::default(), 1).unwrap().usage() > 1.0, "not yet");
    }
}
