//! What is known between two readings: the history, the plans that are followed, and the last counters.

use ratekeeper::Name;

use super::history::{AskedPlans, History, HistoryCopy, HistoryQuery, ToldLanes};
use super::points::{ServerPoint, TransportPoint};
use super::reading::CounterReading;
use super::series::SeriesRow;
use super::top_keys::TopKeys;
use super::tracked_plans::{OTHER, PlanLook, TrackedPlans};
use crate::engine::Engine;
use crate::watch::epoch_millis;

/// A reading may be so many seconds late: what it counts is spread over them. Of more, the machine has slept, and there is a
/// gap.
const MOST_LATE: u64 = 10;

/// An instant, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleTime {
    /// Milliseconds since the epoch, for those who look.
    pub(super) wall: u64,
    /// Milliseconds by a clock that nobody sets, and that goes on while the machine sleeps.
    pub(super) steady: u64,
}

impl SampleTime {
    /// Returns the present instant.
    pub(super) fn now() -> Self {
        SampleTime { wall: epoch_millis(), steady: steady_millis() }
    }
}

#[cfg(target_os = "linux")]
fn steady_millis() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let whole = |number: i64| u64::try_from(number).unwrap_or(0);
    whole(now.tv_sec).saturating_mul(1_000).saturating_add(whole(now.tv_nsec) / 1_000_000)
}

#[cfg(not(target_os = "linux"))]
fn steady_millis() -> u64 {
    static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX)
}

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
    /// When the first reading was by the steady clock, and how many seconds have been written since.
    began: Option<u64>,
    seconds: u64,
    /// How many plans there were.
    pub(super) registered: usize,
}

impl SampledState {
    /// Reads the counters at this instant, and writes what has changed into the history. Does nothing if the second of the
    /// last reading is not over.
    pub(super) fn read(&mut self, engine: &Engine, follows_top: bool, now: SampleTime) {
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
            match missed {
                ..=MOST_LATE => self.history.push(0, missed + 1, &row),
                _ => self.history.push(usize::try_from(missed).unwrap_or(usize::MAX), 1, &row),
            }
            self.seconds += missed + 1;
        }
        self.began.get_or_insert(now.steady);
        cleared.into_iter().for_each(|lane| self.history.clear_plan(lane));
        match follows_top {
            true => self.top.look(engine.metrics().top_denied()),
            false => self.top.clear(),
        }
        (self.last, self.read_at) = (reading, now.wall);
    }

    /// Returns how many seconds went by without a reading since the last one; none if its second is not over.
    ///
    /// Counted from the first reading, so that readings that are a little late do not add up.
    fn missed(&self, now: SampleTime) -> Option<u64> {
        let Some(began) = self.began else { return Some(0) };
        let second = now.steady.saturating_sub(began).saturating_add(500) / 1_000;
        second.checked_sub(self.seconds + 1)
    }

    /// Returns a copy of what a query of the history asks for; an error is the name of a plan that has no lane.
    pub(super) fn history(&self, query: &HistoryQuery) -> Result<HistoryCopy, String> {
        let mut plans: Vec<(String, usize)> = Vec::new();
        match &query.plans {
            AskedPlans::None => {}
            AskedPlans::All => {
                plans.extend(self.plans.lanes().map(|(name, lane)| (name.as_str().to_owned(), lane)));
            }
            AskedPlans::Named(names) => {
                for name in names {
                    plans.push((name.clone(), self.plans.lane(name).ok_or_else(|| name.clone())?));
                }
            }
        }
        plans.sort_unstable();
        plans.dedup();
        let others = (query.plans == AskedPlans::All).then_some(OTHER);
        let transports = self.last.transports.iter().map(|counts| counts.transport).collect();
        Ok(self.history.copy_of(query, ToldLanes { plans, others, transports }, self.read_at))
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{MemoryStore, Plan, Registry};

    use super::*;
    use crate::request::RequestLimits;

    fn at(steady: u64) -> SampleTime {
        SampleTime { wall: 1_000_000_000 + steady, steady }
    }

    #[test]
    fn a_second_is_a_point_however_late_it_is_read() {
        let engine = Engine::in_memory(MemoryStore::default(), Registry::default(), RequestLimits::default());
        let mut state = SampledState::default();
        // When it is read, and how many points there are then: late readings, two at once, and a sleep.
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
        ] {
            state.read(&engine, false, at(now));
            assert_eq!(state.history.seconds().len(), points, "{now}");
        }
    }

    /// Returns what was allowed under the plan, second by second.
    fn allowed(state: &SampledState) -> Vec<Option<u32>> {
        let lane = state.plans.lane("free").unwrap();
        state.history.seconds().plan(lane, 20).map(|point| point.map(|point| point.allowed)).collect()
    }

    #[test]
    fn clocks_that_are_set_and_readings_that_are_late_change_no_rate() {
        let plans = Registry::new([Plan::parse("free", "1000000/s").unwrap()]);
        let engine = Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default());
        let ask = |times| {
            (0..times).for_each(|_| drop(engine.keeper().acquire("k", "free", 1).now().unwrap().unwrap()));
        };
        let mut state = SampledState::default();
        state.read(&engine, false, at(0));
        ask(10);
        state.read(&engine, false, at(1_000));
        ask(40);
        state.read(&engine, false, at(5_000));
        assert_eq!(allowed(&state), [Some(10); 5], "four seconds at once are four seconds");
        // The clock on the wall is set: by an hour, and then to the beginning of all time.
        ask(10);
        state.read(&engine, false, SampleTime { wall: 2_000_000_000, steady: 6_000 });
        ask(10);
        state.read(&engine, false, SampleTime { wall: 5, steady: 7_000 });
        assert_eq!((allowed(&state), state.read_at), (vec![Some(10); 7], 5));
        // The machine sleeps for longer than anybody is late.
        ask(10);
        state.read(&engine, false, at(7_000 + (MOST_LATE + 2) * 1_000));
        let mut slept = vec![Some(10); 7];
        slept.extend((0..=MOST_LATE).map(|_| None));
        slept.push(Some(10));
        assert_eq!(allowed(&state), slept);
    }

    #[test]
    fn the_steady_clock_is_steady() {
        let (one, other) = (SampleTime::now(), SampleTime::now());
        assert!(other.steady >= one.steady && other.steady - one.steady < 60_000);
    }
}
