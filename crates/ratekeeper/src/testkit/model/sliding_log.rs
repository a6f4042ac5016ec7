//! The sliding window log: a list of what passed and when. An entry exactly `window` old still counts.

use std::collections::BTreeSet;

use super::law::{Law, SLACK, count_on};
use crate::Quota;
use crate::algorithm::Tenancy;
use crate::algorithm::sliding_log::SlidingLogState;

/// Instants and costs, oldest first.
#[derive(Clone, Debug)]
pub(super) struct SlidingLog {
    entries: Vec<(i128, u64)>,
    /// The latest instant seen, which is never replaced by an earlier one while anything is remembered.
    latest: i128,
}

impl SlidingLog {
    pub(super) fn of(state: &SlidingLogState) -> Self {
        let entries: Vec<_> = state.entries().map(|(at, cost)| (at.as_nanos().into(), cost)).collect();
        let latest = entries.last().map_or(i128::MIN, |(at, _)| *at);
        SlidingLog { entries, latest }
    }

    fn within(&self, quota: &Quota, at: i128) -> u128 {
        let window = i128::from(quota.period().as_nanos());
        self.entries.iter().filter(|(then, _)| at - then <= window).map(|(_, cost)| u128::from(*cost)).sum()
    }
}

impl Law for SlidingLog {
    fn fresh(_: &Quota, now: i128) -> Self {
        SlidingLog { entries: Vec::new(), latest: now }
    }

    fn read(&self, quota: &Quota, now: i128, tenancy: Tenancy) -> (Self, bool) {
        let window = i128::from(quota.period().as_nanos());
        // Entries that lie further ahead than the slack: all that have yet to come count as of now.
        let repaired = tenancy == Tenancy::Own && self.latest > now + SLACK;
        let furthest = if repaired { now } else { i128::MAX };
        let latest = self.latest.min(furthest).max(now);
        let believed = self.entries.iter().map(|(at, cost)| ((*at).min(furthest), *cost));
        let entries: Vec<_> = believed.filter(|(at, _)| latest - at <= window).collect();
        if entries.is_empty() {
            return (Self::fresh(quota, now), false);
        }
        (SlidingLog { entries, latest }, repaired)
    }

    fn passes(&self, quota: &Quota, cost: u64, at: i128) -> bool {
        self.within(quota, at) + u128::from(cost) <= quota.burst().into() || cost == 0
    }

    fn is_fresh(&self, quota: &Quota, at: i128) -> bool {
        self.within(quota, at) == 0
    }

    fn owes(&self, quota: &Quota, at: i128) -> bool {
        self.within(quota, at) > quota.burst().into()
    }

    fn charge(&mut self, _: &Quota, cost: u64, now: i128) {
        self.latest = self.latest.max(now);
        self.entries.push((self.latest, cost));
    }

    /// One entry. If there are as many instants as the bound allows, what is noted for the last of them is noted for this one.
    fn debit(&mut self, quota: &Quota, cost: u64, now: i128) -> u64 {
        let sum = self.entries.iter().map(|(_, cost)| u128::from(*cost)).sum();
        let mut counted = 0;
        let forgiven = count_on(&mut counted, sum, cost);
        if counted == 0 {
            return forgiven;
        }
        self.latest = self.latest.max(now);
        let instants: BTreeSet<i128> = self.entries.iter().map(|(at, _)| *at).collect();
        if let Some(last) = instants.last().filter(|_| instants.len() as u64 >= quota.log_bound().into()) {
            self.entries.iter_mut().filter(|(at, _)| at == last).for_each(|entry| entry.0 = self.latest);
        }
        self.entries.push((self.latest, counted));
        forgiven
    }

    /// Takes out the entry of that instant: what was charged up to it, the newest first; if there is too little, what was charged
    /// later, the oldest first. What has left the window is gone.
    fn refund(&mut self, quota: &Quota, cost: u64, charged_at: i128, _: i128) {
        let has_left = self.latest - charged_at > i128::from(quota.period().as_nanos());
        let mut left = if has_left { 0 } else { cost };
        let mut give = |entry: &mut (i128, u64)| {
            let back = left.min(entry.1);
            entry.1 -= back;
            left -= back;
        };
        self.entries.iter_mut().rev().filter(|(at, _)| *at <= charged_at).for_each(&mut give);
        self.entries.iter_mut().filter(|(at, _)| *at > charged_at).for_each(&mut give);
        self.entries.retain(|(_, cost)| *cost > 0);
        // The instant that the engine knows of is its last entry's.
        if let Some((at, _)) = self.entries.last() {
            self.latest = *at;
        }
    }
}
