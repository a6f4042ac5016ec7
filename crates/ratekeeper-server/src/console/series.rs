//! A ring of points: the last so many seconds, or minutes.

use super::points::{LanePoint, PlanPoint, ServerPoint, TransportPoint};

/// A ring of fixed length, with a lane for the server, one for each plan that has one, and one for each transport.
/// Lanes of plans and transports take memory from their first use on.
#[derive(Debug)]
pub(super) struct RingSeries {
    capacity: usize,
    /// Where the next point goes.
    next: usize,
    len: usize,
    /// None where nothing was read.
    server: Vec<Option<ServerPoint>>,
    plans: Vec<Lane<PlanPoint>>,
    transports: Vec<Lane<TransportPoint>>,
}

/// The points of one plan or transport. Empty before its first use.
#[derive(Clone, Debug, Default)]
struct Lane<P>(Vec<P>);

impl<P: LanePoint> Lane<P> {
    fn put(&mut self, capacity: usize, at: usize, point: P) {
        if self.0.is_empty() {
            self.0.resize(capacity, P::default());
        }
        self.0[at] = point;
    }

    fn get(&self, at: usize) -> P {
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// What is written into all lanes at once.
#[derive(Clone, Debug, Default)]
pub(super) struct SeriesRow {
    /// None if nothing was read.
    pub(super) server: Option<ServerPoint>,
    /// By lane.
    pub(super) plans: Vec<PlanPoint>,
    /// By lane.
    pub(super) transports: Vec<TransportPoint>,
}

impl SeriesRow {
    /// Returns one of `of` parts that add up to this.
    pub(super) fn part(&self, index: u64, of: u64) -> Self {
        SeriesRow {
            server: self.server.map(|point| point.part(index, of)),
            plans: self.plans.iter().map(|point| point.part(index, of)).collect(),
            transports: self.transports.iter().map(|point| point.part(index, of)).collect(),
        }
    }

    /// Adds a later row to this one.
    pub(super) fn add(&mut self, later: &SeriesRow) {
        match (&mut self.server, &later.server) {
            (Some(sum), Some(later)) => sum.add(later),
            (sum @ None, later) => *sum = *later,
            (Some(_), None) => {}
        }
        merge(&mut self.plans, &later.plans);
        merge(&mut self.transports, &later.transports);
    }
}

fn merge<P: LanePoint>(sums: &mut Vec<P>, later: &[P]) {
    if sums.len() < later.len() {
        sums.resize(later.len(), P::default());
    }
    sums.iter_mut().zip(later).for_each(|(sum, later)| sum.merge(later));
}

impl RingSeries {
    /// Returns an empty ring of this many points.
    pub(super) fn new(capacity: usize) -> Self {
        let (plans, transports) = (Vec::new(), Vec::new());
        RingSeries { capacity, next: 0, len: 0, server: vec![None; capacity], plans, transports }
    }

    /// Writes a point into every lane; the oldest is gone.
    pub(super) fn push(&mut self, row: &SeriesRow) {
        let at = self.next;
        self.server[at] = row.server;
        write(&mut self.plans, self.capacity, at, &row.plans);
        write(&mut self.transports, self.capacity, at, &row.transports);
        self.next = (at + 1) % self.capacity;
        self.len = (self.len + 1).min(self.capacity);
    }

    /// Returns a copy that has the lanes of these plans, and those of transports if they are wanted; the other lanes are empty.
    pub(super) fn copy_of(&self, plans: &[usize], with_transports: bool) -> Self {
        let copied = |(index, lane): (usize, &Lane<PlanPoint>)| match plans.contains(&index) {
            true => lane.clone(),
            false => Lane::default(),
        };
        RingSeries {
            server: self.server.clone(),
            plans: self.plans.iter().enumerate().map(copied).collect(),
            transports: if with_transports { self.transports.clone() } else { Vec::new() },
            ..*self
        }
    }

    /// Forgets what a plan's lane holds: another plan gets it.
    pub(super) fn clear_plan(&mut self, lane: usize) {
        if let Some(lane) = self.plans.get_mut(lane) {
            lane.0 = Vec::new();
        }
    }

    /// Returns how many points there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the last points of the server, the oldest first.
    pub(super) fn server(&self, last: usize) -> impl Iterator<Item = Option<&ServerPoint>> {
        self.places(last).map(|at| self.server[at].as_ref())
    }

    /// Returns the last points of a plan's lane, the oldest first; none where nothing was read.
    pub(super) fn plan(&self, lane: usize, last: usize) -> impl Iterator<Item = Option<PlanPoint>> {
        let points = self.plans.get(lane);
        self.places(last).map(move |at| {
            self.server[at].as_ref().map(|_| points.map_or_else(PlanPoint::default, |points| points.get(at)))
        })
    }

    /// Returns the last points of a transport's lane, the oldest first; none where nothing was read.
    pub(super) fn transport(&self, lane: usize, last: usize) -> impl Iterator<Item = Option<TransportPoint>> {
        let points = self.transports.get(lane);
        self.places(last).map(move |at| {
            let point = || points.map_or_else(TransportPoint::default, |points| points.get(at));
            self.server[at].as_ref().map(|_| point())
        })
    }

    fn places(&self, last: usize) -> impl Iterator<Item = usize> {
        let (count, capacity) = (last.min(self.len), self.capacity);
        let start = self.next + capacity - count;
        (0..count).map(move |index| (start + index) % capacity)
    }
}

fn write<P: LanePoint>(lanes: &mut Vec<Lane<P>>, capacity: usize, at: usize, points: &[P]) {
    if lanes.len() < points.len() {
        lanes.resize_with(points.len(), || Lane(Vec::new()));
    }
    for (index, lane) in lanes.iter_mut().enumerate() {
        lane.put(capacity, at, points.get(index).copied().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::super::points::TrafficCounts;
    use super::*;

    fn row(allowed: u64) -> SeriesRow {
        let traffic = TrafficCounts { allowed, ..TrafficCounts::default() };
        let point = PlanPoint { allowed: u32::try_from(allowed).unwrap(), ..PlanPoint::default() };
        SeriesRow {
            server: Some(ServerPoint { traffic, ..ServerPoint::default() }),
            plans: vec![point],
            transports: Vec::new(),
        }
    }

    fn told(series: &RingSeries, last: usize) -> Vec<Option<u64>> {
        series.server(last).map(|point| point.map(|point| point.traffic.allowed)).collect()
    }

    #[test]
    fn the_last_points_are_kept_in_their_order() {
        let mut series = RingSeries::new(3);
        assert!(told(&series, 9).is_empty());
        series.push(&row(1));
        series.push(&row(2));
        assert_eq!(told(&series, 9), [Some(1), Some(2)]);
        series.push(&SeriesRow::default());
        series.push(&row(4));
        assert_eq!((series.len(), told(&series, 9)), (3, vec![Some(2), None, Some(4)]));
        assert_eq!(told(&series, 1), [Some(4)]);
        let plan =
            |lane| series.plan(lane, 3).map(|point| point.map(|point| point.allowed)).collect::<Vec<_>>();
        assert_eq!(plan(0), [Some(2), None, Some(4)]);
        assert_eq!(plan(7), [Some(0), None, Some(0)], "a lane that was never written");
        series.clear_plan(0);
        assert_eq!(series.plan(0, 1).next(), Some(Some(PlanPoint::default())));
    }

    #[test]
    fn rows_are_added_up_and_a_gap_adds_nothing() {
        let mut sum = SeriesRow::default();
        [row(1), SeriesRow::default(), row(2)].iter().for_each(|row| sum.add(row));
        assert_eq!(sum.server.unwrap().traffic.allowed, 3);
        assert_eq!(sum.plans[0].allowed, 3);
    }
}
