//! Which plans have a lane of their own in the history; the others are added up in one.

use std::collections::HashMap;

use ratekeeper::Name;

use super::points::PlanPoint;
use crate::watch::PlanRuleReading;

/// The most plans with a lane of their own.
pub(super) const MOST_PLANS: usize = 64;
/// A plan that is in no registry, and of which nothing was counted in so many looks, is gone: a minute.
const GONE_AFTER: u32 = 60;
/// The lane of all others.
pub(super) const OTHER: usize = 0;

/// The lanes of plans, and what was counted of them at the last reading.
#[derive(Debug)]
pub(super) struct TrackedPlans {
    lanes: HashMap<Name, usize>,
    /// By lane; the first is that of all others.
    seen: Vec<PlanRuleReading>,
    /// By lane: for how many looks nothing was counted.
    idle: Vec<u32>,
    /// Plans without a lane that are in no registry, and what was counted of them when it last mattered: that of Envoy's
    /// rules is such a plan while it is asked for, and one that was removed is not.
    strangers: HashMap<Name, PlanRuleReading>,
}

/// What a look at the counters of plans has found.
#[derive(Debug, Default)]
pub(super) struct PlanLook {
    /// What was counted since the look before, by lane.
    pub(super) points: Vec<PlanPoint>,
    /// Lanes that were given to another plan.
    pub(super) cleared: Vec<usize>,
}

impl Default for TrackedPlans {
    fn default() -> Self {
        TrackedPlans {
            lanes: HashMap::new(),
            seen: vec![PlanRuleReading::default()],
            idle: vec![0],
            strangers: HashMap::new(),
        }
    }
}

impl TrackedPlans {
    /// Takes the counts of all plans: `each` calls back with every rule that has decided. `registered` are the names of the
    /// plans there are.
    ///
    /// Plans have lanes from the beginning if there are few. If there are many, those have one that were asked for first.
    pub(super) fn look(
        &mut self,
        registered: &[Name],
        each: impl FnOnce(&mut dyn FnMut(&Name, PlanRuleReading)),
    ) -> PlanLook {
        if registered.len() <= MOST_PLANS {
            for name in registered {
                self.give_free_lane(name, PlanRuleReading::default());
            }
        }
        let mut sums = vec![PlanRuleReading::default(); self.seen.len()];
        let mut others: HashMap<Name, PlanRuleReading> = HashMap::new();
        // Not if nobody can get one: there may be ten thousand others, every second.
        let can_give = self.lanes.len() < MOST_PLANS || self.gone(registered).is_some();
        each(&mut |name, reading| {
            let lane = self.lanes.get(name).copied().unwrap_or(OTHER);
            sums[lane] += reading;
            if lane == OTHER && can_give && (reading.allowed, reading.denied, reading.would_deny) != (0, 0, 0)
            {
                *others.entry(name.clone()).or_default() += reading;
            }
        });
        let points: Vec<PlanPoint> =
            self.seen.iter().zip(&sums).map(|(before, now)| PlanPoint::between(before, now)).collect();
        for (idle, point) in self.idle.iter_mut().zip(&points) {
            *idle = if *point == PlanPoint::default() { idle.saturating_add(1) } else { 0 };
        }
        self.seen = sums;
        let cleared = self.give_lanes(registered, others);
        PlanLook { points, cleared }
    }

    /// Returns a plan that is gone, and its lane. Names are sorted, as a registry lists them.
    fn gone(&self, registered: &[Name]) -> Option<(&Name, usize)> {
        let is_gone = |(name, lane): &(&Name, usize)| {
            self.idle[*lane] >= GONE_AFTER && registered.binary_search(name).is_err()
        };
        self.lanes().find(is_gone)
    }

    /// Gives lanes to plans that were counted among the others, those with most decisions first.
    fn give_lanes(&mut self, registered: &[Name], others: HashMap<Name, PlanRuleReading>) -> Vec<usize> {
        let mut cleared = Vec::new();
        if others.is_empty() {
            return cleared;
        }
        let mut others: Vec<_> = others.into_iter().collect();
        others.sort_by(|(one, ones), (other, others)| {
            let decided = |reading: &PlanRuleReading| reading.allowed + reading.denied;
            decided(others).cmp(&decided(ones)).then_with(|| one.cmp(other))
        });
        let is_registered = |name: &Name| registered.binary_search(name).is_ok();
        let before = std::mem::take(&mut self.strangers);
        self.strangers = others.iter().filter(|(name, _)| !is_registered(name)).cloned().collect();
        for (name, reading) in others {
            if self.give_free_lane(&name, reading) {
                continue;
            }
            // A plan that is gone leaves its lane to one that is not.
            let gone = self.gone(registered).map(|(old, lane)| (old.clone(), lane));
            let Some((old, lane)) = gone else { break };
            let is_asked_for = is_registered(&name) || before.get(&name).is_some_and(|was| *was != reading);
            if !is_asked_for {
                continue;
            }
            self.lanes.remove(&old);
            let was = std::mem::take(&mut self.seen[lane]);
            self.seen[OTHER] += was;
            self.lanes.insert(name, lane);
            self.idle[lane] = 0;
            self.move_to(lane, reading);
            cleared.push(lane);
        }
        cleared
    }

    /// Returns true if the plan has got a lane, and false if there is none left. What was counted of it so far was counted
    /// among the others.
    fn give_free_lane(&mut self, name: &Name, counted: PlanRuleReading) -> bool {
        if self.lanes.contains_key(name) {
            return true;
        }
        if self.lanes.len() >= MOST_PLANS {
            return false;
        }
        let lane = self.seen.len();
        self.lanes.insert(name.clone(), lane);
        self.seen.push(PlanRuleReading::default());
        self.idle.push(0);
        self.move_to(lane, counted);
        true
    }

    fn move_to(&mut self, lane: usize, counted: PlanRuleReading) {
        self.seen[lane] = counted;
        let others = &mut self.seen[OTHER];
        others.allowed = others.allowed.saturating_sub(counted.allowed);
        others.denied = others.denied.saturating_sub(counted.denied);
        others.would_deny = others.would_deny.saturating_sub(counted.would_deny);
    }

    /// Returns the plans that have a lane, in no order.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (&Name, usize)> {
        self.lanes.iter().map(|(name, lane)| (name, *lane))
    }

    /// Returns the lane of a plan, if it has one of its own.
    pub(super) fn lane(&self, name: &str) -> Option<usize> {
        self.lanes.get(name).copied()
    }

    /// Returns how many requests rules in shadow would have denied, of all plans since the start.
    pub(super) fn would_deny(&self) -> u64 {
        self.seen.iter().map(|reading| reading.would_deny).sum()
    }

    /// Returns what was counted in a lane since the start.
    pub(super) fn total(&self, lane: usize) -> PlanRuleReading {
        self.seen.get(lane).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        Name::new(&format!("plan-{number:05}")).unwrap()
    }

    fn names(count: usize) -> Vec<Name> {
        (0..count).map(name).collect()
    }

    fn look(tracked: &mut TrackedPlans, registered: &[Name], counts: &[(usize, u64)]) -> PlanLook {
        tracked.look(registered, |each| {
            for (plan, allowed) in counts {
                each(&name(*plan), PlanRuleReading { allowed: *allowed, ..PlanRuleReading::default() });
            }
        })
    }

    fn counted(tracked: &TrackedPlans, look: &PlanLook, plan: usize) -> u32 {
        look.points[tracked.lane(name(plan).as_str()).unwrap()].allowed
    }

    #[test]
    fn few_plans_have_lanes_from_the_beginning() {
        let (mut tracked, plans) = (TrackedPlans::default(), names(2));
        assert_eq!(look(&mut tracked, &plans, &[]).points.len(), 3);
        let first = look(&mut tracked, &plans, &[(1, 5)]);
        assert_eq!((counted(&tracked, &first, 0), counted(&tracked, &first, 1)), (0, 5));
        assert_eq!(first.points[OTHER], PlanPoint::default());
        let second = look(&mut tracked, &plans, &[(1, 7)]);
        assert_eq!((counted(&tracked, &second, 1), tracked.total(2).allowed), (2, 7));
    }

    #[test]
    fn ten_thousand_plans_are_64_and_the_rest_and_nothing_is_counted_twice() {
        let (mut tracked, plans) = (TrackedPlans::default(), names(10_000));
        let busy: Vec<_> = (0..100).map(|plan| (plan, 1_000 - plan as u64)).collect();
        let all: u64 = busy.iter().map(|(_, count)| count).sum();
        let first = look(&mut tracked, &plans, &busy);
        assert_eq!(u64::from(first.points[OTHER].allowed), all, "none had a lane yet");
        assert_eq!(tracked.lanes().count(), MOST_PLANS);
        assert!(tracked.lane(name(0).as_str()).is_some() && tracked.lane(name(64).as_str()).is_none());
        let more: Vec<_> = busy.iter().map(|(plan, count)| (*plan, count + 2)).collect();
        let second = look(&mut tracked, &plans, &more);
        assert_eq!(counted(&tracked, &second, 0), 2);
        assert_eq!(second.points[OTHER].allowed, 2 * 36);
        assert_eq!(second.points.iter().map(|point| u64::from(point.allowed)).sum::<u64>(), 200);
    }

    #[test]
    fn a_plan_that_is_gone_leaves_its_lane_to_another() {
        let (mut tracked, plans) = (TrackedPlans::default(), names(MOST_PLANS));
        look(&mut tracked, &plans, &[(0, 3)]);
        // The first is removed, and another comes.
        let plans: Vec<Name> = (1..=MOST_PLANS).map(name).collect();
        for _ in 1..GONE_AFTER {
            let waits = look(&mut tracked, &plans, &[(0, 3)]);
            assert!(waits.cleared.is_empty() && tracked.lane(name(0).as_str()).is_some());
        }
        look(&mut tracked, &plans, &[(0, 3)]);
        let first = look(&mut tracked, &plans, &[(0, 3), (MOST_PLANS, 4)]);
        assert_eq!((first.points[OTHER].allowed, first.cleared.len()), (4, 1));
        assert!(tracked.lane(name(0).as_str()).is_none());
        let second = look(&mut tracked, &plans, &[(0, 3), (MOST_PLANS, 9)]);
        assert_eq!((counted(&tracked, &second, MOST_PLANS), second.points[OTHER].allowed), (5, 0));
    }

    #[test]
    fn a_plan_of_no_registry_keeps_its_lane_while_it_is_asked_for_and_gets_one_again() {
        let (mut tracked, rls) = (TrackedPlans::default(), 20_000);
        look(&mut tracked, &[], &[(rls, 1)]);
        assert!(tracked.lane(name(rls).as_str()).is_some());
        // Many plans come by a reload, and all of them are asked for.
        let plans = names(100);
        let busy: Vec<_> = (0..100).map(|plan| (plan, 1)).collect();
        for second in 0..u64::from(2 * GONE_AFTER) {
            look(&mut tracked, &plans, &[&busy[..], &[(rls, second)]].concat());
        }
        assert!(tracked.lane(name(rls).as_str()).is_some(), "it is asked for");
        let last = u64::from(2 * GONE_AFTER);
        (0..GONE_AFTER + 2)
            .for_each(|_| drop(look(&mut tracked, &plans, &[&busy[..], &[(rls, last)]].concat())));
        assert!(tracked.lane(name(rls).as_str()).is_none(), "nobody has asked for a minute");
        assert_eq!(tracked.lanes().count(), MOST_PLANS);
        // One of the others is removed, and then it is asked for again.
        let gone = (0..100).find(|plan| tracked.lane(name(*plan).as_str()).is_some()).unwrap();
        let plans: Vec<Name> = (0..64).filter(|plan| *plan != gone).map(name).collect();
        for second in 0..=u64::from(GONE_AFTER) + 2 {
            look(&mut tracked, &plans, &[&busy[..64], &[(rls, last + second)]].concat());
        }
        assert!(tracked.lane(name(rls).as_str()).is_some());
    }
}
