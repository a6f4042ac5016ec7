//! The last 15 minutes by seconds, and the last day by minutes.

use std::fmt::{Display, Write};

use super::percentile::percentile;
use super::points::{PlanPoint, ServerPoint, TransportPoint};
use super::series::{RingSeries, SeriesRow};

/// How many seconds are kept: 15 minutes.
const SECONDS: usize = 900;
/// How many minutes are kept: a day.
const MINUTES: usize = 1_440;
/// Seconds of a minute.
pub(super) const MINUTE: usize = 60;

/// How long one point is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// A second.
    #[default]
    Second,
    /// A minute.
    Minute,
}

/// What is asked of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryQuery {
    /// How long a point is.
    pub(crate) resolution: Resolution,
    /// How many points; none for all there are.
    pub(crate) last: Option<usize>,
    /// Which plans are told of.
    pub(crate) plans: AskedPlans,
    /// Whether transports are told of.
    pub(crate) transports: bool,
}

/// Which plans a history tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum AskedPlans {
    /// None.
    #[default]
    None,
    /// All that have a lane, and the others together.
    All,
    /// These.
    Named(Vec<String>),
}

/// The rings.
#[derive(Debug)]
pub(super) struct History {
    seconds: RingSeries,
    minutes: RingSeries,
    /// The minute that is not over.
    pending: SeriesRow,
    pending_seconds: usize,
}

/// A copy of what a query asks for. To write it takes a while, and nobody is to wait for that.
#[derive(Debug)]
pub(super) struct HistoryCopy {
    series: RingSeries,
    lanes: ToldLanes,
    /// When the last point ended, in milliseconds since the epoch.
    end: u64,
}

/// The names of the lanes that a history tells of.
#[derive(Debug)]
pub(super) struct ToldLanes {
    /// Plans by name, each with its lane.
    pub(super) plans: Vec<(String, usize)>,
    /// The lane of all other plans, if that is told of.
    pub(super) others: Option<usize>,
    /// Transports, by lane; empty if they are not told of.
    pub(super) transports: Vec<&'static str>,
}

impl Default for History {
    fn default() -> Self {
        let (seconds, minutes) = (RingSeries::new(SECONDS), RingSeries::new(MINUTES));
        History { seconds, minutes, pending: SeriesRow::default(), pending_seconds: 0 }
    }
}

impl Resolution {
    /// Returns how it is spelled.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Resolution::Second => "1s",
            Resolution::Minute => "1m",
        }
    }

    fn seconds(self) -> usize {
        match self {
            Resolution::Second => 1,
            Resolution::Minute => MINUTE,
        }
    }
}

impl History {
    /// Adds what was counted in these seconds, at least one: as much to each. Before them, `gap` seconds went by without a
    /// reading.
    pub(super) fn push(&mut self, gap: usize, seconds: u64, row: &SeriesRow) {
        // More gaps than the longest ring has would say nothing more.
        for _ in 0..gap.min(MINUTES * MINUTE) {
            self.push_one(&SeriesRow::default());
        }
        match seconds {
            ..=1 => self.push_one(row),
            _ => (0..seconds).for_each(|index| self.push_one(&row.part(index, seconds))),
        }
    }

    fn push_one(&mut self, row: &SeriesRow) {
        self.seconds.push(row);
        self.pending.add(row);
        self.pending_seconds += 1;
        if self.pending_seconds >= MINUTE {
            self.minutes.push(&std::mem::take(&mut self.pending));
            self.pending_seconds = 0;
        }
    }

    /// Forgets what a plan's lane holds.
    pub(super) fn clear_plan(&mut self, lane: usize) {
        self.seconds.clear_plan(lane);
        self.minutes.clear_plan(lane);
        if let Some(point) = self.pending.plans.get_mut(lane) {
            *point = PlanPoint::default();
        }
    }

    /// Returns the rings of seconds.
    pub(super) fn seconds(&self) -> &RingSeries {
        &self.seconds
    }

    /// Returns what was counted in the last seconds, at most a minute of them.
    pub(super) fn last_seconds(&self, seconds: usize) -> ServerPoint {
        let mut sum = ServerPoint::default();
        self.seconds.server(seconds.min(MINUTE)).flatten().for_each(|point| sum.add(point));
        sum
    }

    /// Returns a copy of what a query asks for; `now` is when the last second ended, in milliseconds since the epoch.
    pub(super) fn copy_of(&self, query: &HistoryQuery, lanes: ToldLanes, now: u64) -> HistoryCopy {
        let (series, behind) = match query.resolution {
            Resolution::Second => (&self.seconds, 0),
            Resolution::Minute => (&self.minutes, self.pending_seconds),
        };
        let plans: Vec<usize> = lanes.plans.iter().map(|(_, lane)| *lane).chain(lanes.others).collect();
        let end = now.saturating_sub(behind as u64 * 1_000);
        HistoryCopy { series: series.copy_of(&plans, query.transports), lanes, end }
    }
}

impl HistoryCopy {
    /// Writes the answer to the query that it was copied for, as JSON.
    pub(super) fn render(&self, query: &HistoryQuery) -> String {
        let HistoryCopy { series, lanes, end } = self;
        let last = query.last.unwrap_or(usize::MAX).min(series.len());
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"resolution\":\"{}\",\"step_s\":{},\"end\":{end},\"points\":{last}",
            query.resolution.as_str(),
            query.resolution.seconds(),
        );
        let server = |read: fn(&ServerPoint) -> u64| series.server(last).map(move |point| point.map(read));
        list(&mut out, "allowed", server(|point| point.traffic.allowed));
        list(&mut out, "denied", server(|point| point.traffic.denied));
        list(&mut out, "would_deny", server(|point| point.traffic.would_deny));
        list(&mut out, "failed_open", server(|point| point.traffic.failed_open));
        list(&mut out, "failed_closed", server(|point| point.traffic.failed_closed));
        list(&mut out, "errors", server(|point| point.traffic.errors));
        list(&mut out, "store_errors", server(|point| point.traffic.store_errors));
        for (name, percent) in [("p50_us", 50), ("p99_us", 99)] {
            let points = series.server(last);
            list(
                &mut out,
                name,
                points.map(|point| point.and_then(|point| percentile(&point.times, percent))),
            );
        }
        list(&mut out, "keys", series.server(last).map(|point| point.and_then(|point| point.keys)));
        list(&mut out, "bytes", series.server(last).map(|point| point.and_then(|point| point.bytes)));
        if lanes.others.is_some() || !lanes.plans.is_empty() {
            out.push_str(",\"plans\":[");
            for (index, (plan, lane)) in lanes.plans.iter().enumerate() {
                // Names of plans need no escapes.
                let _ = write!(out, "{}{{\"plan\":\"{plan}\"", if index > 0 { "," } else { "" });
                plan_lists(&mut out, series, *lane, last);
                out.push('}');
            }
            out.push(']');
        }
        if let Some(lane) = lanes.others {
            out.push_str(",\"other_plans\":{\"plan\":null");
            plan_lists(&mut out, series, lane, last);
            out.push('}');
        }
        if query.transports {
            out.push_str(",\"transports\":[");
            for (lane, transport) in lanes.transports.iter().enumerate() {
                let _ = write!(out, "{}{{\"transport\":\"{transport}\"", if lane > 0 { "," } else { "" });
                let points = |read: fn(TransportPoint) -> u32| {
                    series.transport(lane, last).map(move |point| point.map(read))
                };
                list(&mut out, "allowed", points(|point| point.allowed));
                list(&mut out, "denied", points(|point| point.denied));
                list(&mut out, "errors", points(|point| point.errors));
                list(&mut out, "connections", points(|point| point.connections));
                list(&mut out, "refused_connections", points(|point| point.refused));
                out.push('}');
            }
            out.push(']');
        }
        out.push('}');
        out
    }
}

fn plan_lists(out: &mut String, series: &RingSeries, lane: usize, last: usize) {
    let points = |read: fn(PlanPoint) -> u32| series.plan(lane, last).map(move |point| point.map(read));
    list(out, "allowed", points(|point| point.allowed));
    list(out, "denied", points(|point| point.denied));
    list(out, "would_deny", points(|point| point.would_deny));
}

/// Writes a list of numbers, by hand: there may be a hundred thousand of them.
fn list<T: Display>(out: &mut String, name: &str, numbers: impl Iterator<Item = Option<T>>) {
    let _ = write!(out, ",\"{name}\":[");
    for (index, number) in numbers.enumerate() {
        if index > 0 {
            out.push(',');
        }
        let _ = match number {
            Some(number) => write!(out, "{number}"),
            None => write!(out, "null"),
        };
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::points::TrafficCounts;
    use super::*;

    fn row(allowed: u64) -> SeriesRow {
        let traffic = TrafficCounts { allowed, ..TrafficCounts::default() };
        let plans = vec![PlanPoint { denied: 1, ..PlanPoint::default() }; 2];
        let transports = vec![TransportPoint { connections: 7, ..TransportPoint::default() }];
        let server = Some(ServerPoint { traffic, keys: Some(allowed), ..ServerPoint::default() });
        SeriesRow { server, plans, transports }
    }

    fn rendered(history: &History, query: &HistoryQuery) -> Value {
        let plans = vec![("free".to_owned(), 1)];
        let lanes = ToldLanes { plans, others: Some(0), transports: vec!["http"] };
        serde_json::from_str(&history.copy_of(query, lanes, 1_000_000).render(query)).unwrap()
    }

    #[test]
    fn seconds_become_minutes_and_gaps_are_seen() {
        let mut history = History::default();
        (0..60).for_each(|_| history.push(0, 1, &row(2)));
        history.push(2, 1, &row(5));
        let query = HistoryQuery { last: Some(4), transports: true, ..HistoryQuery::default() };
        let told = rendered(&history, &query);
        assert_eq!(told["allowed"], json!([2, null, null, 5]));
        assert_eq!(told["keys"], json!([2, null, null, 5]));
        assert_eq!(told["p99_us"], json!([null, null, null, null]));
        assert_eq!((&told["points"], &told["end"]), (&json!(4), &json!(1_000_000)));
        assert_eq!(told["plans"][0]["denied"], json!([1, null, null, 1]));
        assert_eq!(told["other_plans"]["denied"], json!([1, null, null, 1]));
        assert_eq!(told["transports"][0]["connections"], json!([7, null, null, 7]));
        let minutes = rendered(&history, &HistoryQuery { resolution: Resolution::Minute, ..query });
        assert_eq!(minutes["allowed"], json!([120]));
        assert_eq!((&minutes["step_s"], &minutes["end"]), (&json!(60), &json!(997_000)));
        assert_eq!(minutes["plans"][0]["denied"], json!([60]));
        assert_eq!(history.last_seconds(60).traffic.allowed, 5 + 2 * 57);
    }

    #[test]
    fn what_was_read_late_is_spread_over_its_seconds() {
        let mut history = History::default();
        history.push(0, 3, &row(11));
        let told = rendered(&history, &HistoryQuery { transports: true, ..HistoryQuery::default() });
        assert_eq!((&told["allowed"], &told["keys"]), (&json!([4, 4, 3]), &json!([11, 11, 11])));
        assert_eq!(told["plans"][0]["denied"], json!([1, 0, 0]));
        assert_eq!(told["transports"][0]["connections"], json!([7, 7, 7]));
    }

    #[test]
    fn a_machine_that_slept_for_years_is_no_endless_loop() {
        let mut history = History::default();
        history.push(usize::MAX, 1, &row(1));
        assert_eq!((history.seconds.len(), history.minutes.len()), (SECONDS, MINUTES));
    }
}
