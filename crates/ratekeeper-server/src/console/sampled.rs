//! What is known between two readings: the history, the plans that are followed, and the last counters.

use std::time::{SystemTime, UNIX_EPOCH};

use ratekeeper::Name;

use super::history::{AskedPlans, History, HistoryQuery, ToldLanes};
use super::points::{ServerPoint, TransportPoint};
use super::reading::CounterReading;
use super::series::SeriesRow;
use super::top_keys::TopKeys;
use super::tracked_plans::{OTHER, PlanLook, TrackedPlans};
use crate::engine::Engine;

/// Everything that a reading changes.
#[derive(Debug, Default)]
pub(super) struct SampledState {
    pub(super) history: History,
    pub(super) plans: TrackedPlans,
    pub(super) top: TopKeys,
    /// The counters at the last reading.
    pub(super) last: CounterReading,
    /// When that was, in milliseconds since the epoch.
    pub(super) read_at: u64,
    /// When the first reading was, and how many seconds have been written since.
    began: Option<u64>,
    seconds: u64,
    /// How many plans there were.
    pub(super) registered: usize,
}

impl SampledState {
    /// Reads the counters at this instant, and writes what has changed into the history. Does nothing if the second of the
    /// last reading is not over.
    pub(super) fn read(&mut self, engine: &Engine, follows_top: bool, now: u64) {
        let Some(missed) = self.missed(now) else { return };
        let mut reading = CounterReading::of(engine);
        let registered: Vec<Name> = engine.registry().all().iter().map(|plan| plan.name().clone()).collect();
        let PlanLook { points, cleared } = self.plans.look(&registered, |each| {
            engine.plan_metrics().each_rule(|plan, _, reading| each(plan, reading));
        });
        reading.traffic.would_deny = self.plans.would_deny();
        self.registered = registered.len();
        if self.began.is_some() {
            let transports: Vec<TransportPoint> = reading
                .transports
                .iter()
                .enumerate()
                .map(|(lane, counts)| counts.since(self.last.transports.get(lane)))
                .collect();
            let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
            let server = ServerPoint {
                traffic: reading.traffic.since(&self.last.traffic),
                times: reading.times.since(&self.last.times),
                keys: reading.statistics.map(|statistics| count(statistics.keys)),
                bytes: reading.statistics.map(|statistics| count(statistics.bytes)),
            };
            let row = SeriesRow { server: Some(server), plans: points, transports };
            self.history.push(usize::try_from(missed).unwrap_or(usize::MAX), &row);
            self.seconds += missed + 1;
        }
        self.began.get_or_insert(now);
        cleared.into_iter().for_each(|lane| self.history.clear_plan(lane));
        if follows_top {
            self.top.look(engine.metrics().top_denied());
        }
        (self.last, self.read_at) = (reading, now);
    }

    /// Returns how many seconds went by without a reading since the last one; none if its second is not over.
    ///
    /// By the clock on the wall, because the machine may have slept. Counted from the first reading, so that readings that are
    /// a little late do not add up.
    fn missed(&mut self, now: u64) -> Option<u64> {
        let Some(began) = self.began else { return Some(0) };
        if now < self.read_at {
            // The clock was set back: its seconds count from here.
            self.began = Some(now.saturating_sub((self.seconds + 1) * 1_000));
            return Some(0);
        }
        let second = now.saturating_sub(began).saturating_add(500) / 1_000;
        second.checked_sub(self.seconds + 1)
    }

    /// Writes the answer to a query of the history; an error is the name of a plan that has no lane.
    pub(super) fn history(&self, query: &HistoryQuery) -> Result<String, String> {
        let mut plans: Vec<(&str, usize)> = Vec::new();
        match &query.plans {
            AskedPlans::None => {}
            AskedPlans::All => plans.extend(self.plans.lanes().map(|(name, lane)| (name.as_str(), lane))),
            AskedPlans::Named(names) => {
                for name in names {
                    plans.push((name, self.plans.lane(name).ok_or_else(|| name.clone())?));
                }
            }
        }
        plans.sort_unstable();
        plans.dedup();
        let others = (query.plans == AskedPlans::All).then_some(OTHER);
        let transports = self.last.transports.iter().map(|counts| counts.transport).collect();
        Ok(self.history.render(query, &ToldLanes { plans, others, transports }, self.read_at))
    }
}

/// Returns the milliseconds since the epoch.
pub(super) fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ratekeeper::{MemoryStore, Registry};

    use super::*;
    use crate::request::RequestLimits;

    #[test]
    fn a_second_is_a_point_however_late_it_is_read() {
        let engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
        let mut state = SampledState::default();
        // When it is read, and how many points there are then: late readings, two at once, a sleep, a clock that is set back.
        for (now, points) in [
            (1_010_000, 0),
            (1_011_000, 1),
            (1_012_020, 2),
            (1_013_640, 4),
            (1_014_000, 4),
            (1_015_001, 5),
            (1_015_002, 5),
            (1_016_400, 6),
            (1_026_000, 16),
            (1_005_000, 17),
            (1_006_010, 18),
            (1_007_000, 19),
        ] {
            state.read(&engine, false, now);
            assert_eq!(state.history.seconds().len(), points, "{now}");
        }
    }
}
