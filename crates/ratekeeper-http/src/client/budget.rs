//! How much a server has said that it takes, and until when.

use std::time::Duration;

use tokio::time::Instant;

use super::learn::UnitLesson;
use super::span::{ServerSpan, WaitBounds};
use crate::instant::later;
use crate::usage::UnitList;

/// How many units of one host are remembered: a server that makes up names does not fill the memory.
const MOST_UNITS: usize = 8;

/// How much more may be sent until the end of a span. One that is over stays until a request is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerBudget {
    pub(super) left: u64,
    pub(super) span: ServerSpan,
}

impl ServerBudget {
    /// Returns the budget after a server has said what is left: `remaining` as it says, `left` less what is on its way. Only
    /// ever slows down: a budget is never raised before its time is over. That time is not put off by answers that still
    /// allow something: a server that counts the last minute always says that the minute ends in a minute.
    pub(super) fn learn(
        known: Option<ServerBudget>,
        (remaining, left): (u64, u64),
        reset: Duration,
        now: Instant,
        bounds: WaitBounds,
    ) -> ServerBudget {
        let WaitBounds { longest, jitter } = bounds;
        let until = later(now, reset.min(longest));
        match known {
            Some(ServerBudget { left: 0, mut span }) if remaining == 0 && !span.is_history(now, jitter) => {
                span.prolong(until, longest);
                ServerBudget { left: 0, span }
            }
            Some(ServerBudget { left: already, mut span }) if !span.is_over(now) => {
                if remaining == 0 {
                    span = ServerSpan::new(now, until.max(span.until));
                }
                ServerBudget { left: left.min(already), span }
            }
            _ => ServerBudget { left, span: ServerSpan::new(now, until) },
        }
    }
}

/// What is left of units other than requests, and how much of them is on its way.
#[derive(Debug, Default)]
pub(super) struct UnitBudgets {
    budgets: Vec<UnitBudget>,
    /// Of each unit that requests on their way have said: how much, and how many have said it.
    in_flight: Vec<(&'static str, u64, u64)>,
}

#[derive(Debug)]
struct UnitBudget {
    unit: String,
    /// The most that can be left, as far as the server has said.
    limit: Option<u64>,
    budget: ServerBudget,
    /// Somebody has had to wait for it.
    has_blocked: bool,
}

/// Returns how much of a unit a request takes: one, if it does not say.
fn cost(costs: &UnitList, unit: &str) -> u64 {
    costs.get(unit).unwrap_or(1)
}

impl UnitBudgets {
    /// Returns how long a request has to wait for what it takes; none if all suffices. One that takes more than there can
    /// ever be waits until as much is left as can be.
    pub(super) fn wait(&mut self, costs: &UnitList, now: Instant) -> Option<Duration> {
        let mut longest = None;
        for UnitBudget { unit, limit, budget, has_blocked } in &mut self.budgets {
            let wanted = cost(costs, unit).min(limit.unwrap_or(u64::MAX));
            if wanted > budget.left
                && let Some(left) = budget.span.left(now)
            {
                *has_blocked = true;
                longest = longest.max(Some(left));
            }
        }
        longest
    }

    /// Returns true if a budget is over that somebody has waited for: what holds now is to be found out.
    pub(super) fn is_to_be_probed(&self, now: Instant) -> bool {
        self.budgets.iter().any(|known| known.has_blocked && known.budget.span.is_over(now))
    }

    /// Notes that a request is sent.
    pub(super) fn send(&mut self, costs: &UnitList, now: Instant) {
        self.budgets.retain(|known| !known.budget.span.is_over(now));
        for UnitBudget { unit, budget, .. } in &mut self.budgets {
            budget.left = budget.left.saturating_sub(cost(costs, unit));
        }
        for (unit, amount) in costs.as_slice() {
            match self.in_flight.iter_mut().find(|(known, ..)| known == unit) {
                Some((_, sum, count)) => (*sum, *count) = (sum.saturating_add(*amount), *count + 1),
                None => self.in_flight.push((unit, *amount, 1)),
            }
        }
    }

    /// Notes that a request that was sent has come back, or never will.
    pub(super) fn returned(&mut self, costs: &UnitList) {
        for (unit, amount) in costs.as_slice() {
            if let Some((_, sum, count)) = self.in_flight.iter_mut().find(|(known, ..)| known == unit) {
                (*sum, *count) = (sum.saturating_sub(*amount), count.saturating_sub(1));
            }
        }
        self.in_flight.retain(|(_, _, count)| *count > 0);
    }

    /// Learns what is left of units. `others` are on their way besides the request that was answered, and `answered` is what
    /// that one has said to take, if it is one of those in flight here.
    pub(super) fn learn(
        &mut self,
        lessons: &[UnitLesson],
        others: u64,
        answered: Option<&UnitList>,
        now: Instant,
        bounds: WaitBounds,
    ) {
        for lesson in lessons {
            let on_its_way = self.on_its_way(&lesson.unit, others, answered);
            let left = lesson.remaining.saturating_sub(on_its_way);
            let known = self.budgets.iter_mut().find(|known| known.unit == lesson.unit);
            let before = known.as_ref().map(|known| known.budget);
            let budget = ServerBudget::learn(before, (lesson.remaining, left), lesson.reset, now, bounds);
            match known {
                Some(known) => {
                    known.has_blocked &= !known.budget.span.is_over(now);
                    (known.limit, known.budget) = (lesson.limit.or(known.limit), budget);
                }
                None => {
                    self.budgets.retain(|known| !known.budget.span.is_over(now));
                    if self.budgets.len() < MOST_UNITS {
                        let (unit, limit) = (lesson.unit.clone(), lesson.limit);
                        self.budgets.push(UnitBudget { unit, limit, budget, has_blocked: false });
                    }
                }
            }
        }
    }

    /// Returns how much of a unit is on its way, which the server may not have counted yet.
    fn on_its_way(&self, unit: &str, others: u64, answered: Option<&UnitList>) -> u64 {
        let said = self.in_flight.iter().find(|(known, ..)| *known == unit);
        let (mut sum, mut count) = said.map_or((0, 0), |(_, sum, count)| (*sum, *count));
        if let Some(amount) = answered.and_then(|answered| answered.get(unit)) {
            (sum, count) = (sum.saturating_sub(amount), count.saturating_sub(1));
        }
        // Who does not say takes one.
        sum.saturating_add(others.saturating_sub(count))
    }

    /// Returns what is left of a unit, and for how long that holds.
    pub(super) fn left(&self, unit: &str, now: Instant) -> Option<(u64, Duration)> {
        let known = self.budgets.iter().find(|known| known.unit == unit)?;
        Some((known.budget.left, known.budget.span.left(now)?))
    }

    /// Returns true if anything that was said still holds.
    pub(super) fn are_bound(&self, now: Instant) -> bool {
        self.budgets.iter().any(|known| !known.budget.span.is_over(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BOUNDS: WaitBounds = WaitBounds { longest: Duration::from_secs(60), jitter: Duration::ZERO };

    fn tokens(amount: u64) -> UnitList {
        let mut costs = UnitList::default();
        costs.set("tokens", amount);
        costs
    }

    fn lesson(remaining: u64, reset: Duration) -> [UnitLesson; 1] {
        [UnitLesson { unit: "tokens".to_owned(), limit: Some(100), remaining, reset }]
    }

    #[test]
    fn what_is_on_its_way_is_not_left() {
        let (now, mut budgets) = (Instant::now(), UnitBudgets::default());
        budgets.send(&tokens(30), now);
        budgets.send(&tokens(10), now);
        budgets.send(&UnitList::default(), now);
        budgets.learn(&lesson(100, SECOND), 2, Some(&tokens(30)), now, BOUNDS);
        assert_eq!(
            budgets.left("tokens", now),
            Some((89, SECOND)),
            "10 that were said, and one that was not"
        );
        assert_eq!(budgets.wait(&tokens(89), now), None);
        assert_eq!(budgets.wait(&tokens(90), now), Some(SECOND));
        assert!(!budgets.is_to_be_probed(now) && budgets.is_to_be_probed(now + SECOND));
        assert_eq!(budgets.wait(&tokens(90), now + SECOND), None);
        budgets.returned(&tokens(10));
        budgets.returned(&tokens(30));
        assert!(budgets.in_flight.is_empty());
    }

    #[test]
    fn no_number_of_a_server_makes_it_wait_for_ever() {
        let (now, mut budgets) = (Instant::now(), UnitBudgets::default());
        budgets.send(&tokens(u64::MAX), now);
        budgets.send(&tokens(u64::MAX), now);
        for remaining in [0, 1, u64::MAX] {
            budgets.learn(&lesson(remaining, Duration::MAX), u64::MAX, None, now, BOUNDS);
            assert_eq!(budgets.wait(&tokens(u64::MAX), now), Some(BOUNDS.longest), "{remaining}");
        }
        assert_eq!(budgets.wait(&tokens(u64::MAX), now + BOUNDS.longest), None);
    }

    #[test]
    fn more_than_can_ever_be_left_waits_for_all_that_can() {
        let (now, mut budgets) = (Instant::now(), UnitBudgets::default());
        budgets.learn(&lesson(99, SECOND), 0, None, now, BOUNDS);
        assert_eq!(budgets.wait(&tokens(500), now), Some(SECOND));
        let mut budgets = UnitBudgets::default();
        budgets.learn(&lesson(100, SECOND), 0, None, now, BOUNDS);
        assert_eq!(budgets.wait(&tokens(500), now), None);
    }

    #[test]
    fn made_up_units_do_not_fill_the_memory() {
        let (now, mut budgets) = (Instant::now(), UnitBudgets::default());
        for number in 0..1000 {
            let unit = format!("tokens-{number}");
            let lesson = UnitLesson { unit, limit: None, remaining: 1, reset: SECOND };
            budgets.learn(&[lesson], 0, None, now, BOUNDS);
        }
        assert_eq!(budgets.budgets.len(), MOST_UNITS);
    }
}
