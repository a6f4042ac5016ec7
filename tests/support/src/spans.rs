//! What was admitted, by a clock on the wall, and how much of it any span of time holds.
//!
//! Every admission is stamped before the call and after it; the instant at which it was decided lies between the two. So
//! those whose whole call lies within a span were decided within it, and calls that only overlap it are not counted: the
//! check raises no false alarm, however busy the machine is.

/// One admission of cost 1: what a clock showed before the call and after it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub before: u64,
    pub after: u64,
}

/// The span that holds the most beside what refills in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstSpan {
    /// What was admitted in it, less what refills in it: a quota that is kept admits its burst, and no more.
    pub beside: f64,
    pub admitted: u64,
    pub begin: u64,
    pub end: u64,
}

/// Returns the worst of all spans, of any length, at so many tokens a second; none if nothing was admitted.
///
/// A span that begins and ends between two calls holds the same calls as one that begins with the first of them and ends
/// with the last: only those are looked at, each of them, in `n log n` steps.
pub fn worst_span(stamps: &[Stamp], rate: f64) -> Option<WorstSpan> {
    let per_nano = rate / 1e9;
    let mut begins: Vec<u64> = stamps.iter().map(|stamp| stamp.before).collect();
    begins.sort_unstable();
    begins.dedup();
    let first = *begins.first()?;
    let mut by_end: Vec<&Stamp> = stamps.iter().collect();
    by_end.sort_unstable_by_key(|stamp| stamp.after);
    let mut open = OpenSpans::new(begins.len());
    let (mut opened, mut worst) = (0, None::<(f64, u64, u64)>);
    for stamp in by_end {
        let at = begins.partition_point(|begin| *begin < stamp.before);
        while opened <= at {
            open.open(opened, per_nano * (begins[opened] - first) as f64);
            opened += 1;
        }
        open.count(at);
        let (level, begin) = open.highest();
        let beside = level - per_nano * (stamp.after - first) as f64;
        if worst.is_none_or(|(most, ..)| beside > most) {
            worst = Some((beside, begins[begin], stamp.after));
        }
    }
    let (beside, begin, end) = worst?;
    let is_within = |stamp: &&Stamp| stamp.before >= begin && stamp.after <= end;
    let admitted = stamps.iter().filter(is_within).count() as u64;
    Some(WorstSpan { beside, admitted, begin, end })
}

/// Returns the most that any span of this length holds.
pub fn most_within(stamps: &[Stamp], length: u64) -> u64 {
    // The span that begins at `s` holds a call if `s` is from `after - length` to `before`: the most that overlap.
    let fits = |stamp: &&Stamp| stamp.after - stamp.before <= length;
    let mut from: Vec<u64> =
        stamps.iter().filter(fits).map(|stamp| stamp.after.saturating_sub(length)).collect();
    let mut to: Vec<u64> = stamps.iter().filter(fits).map(|stamp| stamp.before).collect();
    from.sort_unstable();
    to.sort_unstable();
    let (mut over, mut most) = (0, 0);
    for (begun, from) in (1_u64..).zip(from) {
        while to[over] < from {
            over += 1;
        }
        most = most.max(begun - over as u64);
    }
    most
}

/// For each span that has begun, what was counted since then and what had refilled when it began, of which the highest is
/// known at once: a tree whose nodes know the highest below them.
struct OpenSpans {
    /// The first leaf; the root is 1.
    leaves: usize,
    nodes: Vec<SpanNode>,
}

#[derive(Clone, Copy)]
struct SpanNode {
    /// What was counted below.
    count: u32,
    highest: f64,
    /// Where that is.
    at: u32,
}

impl OpenSpans {
    fn new(spans: usize) -> Self {
        let leaves = spans.next_power_of_two();
        let closed = SpanNode { count: 0, highest: f64::NEG_INFINITY, at: 0 };
        OpenSpans { leaves, nodes: vec![closed; 2 * leaves] }
    }

    /// Begins a span, when so much had refilled.
    fn open(&mut self, at: usize, refilled: f64) {
        let leaf = &mut self.nodes[self.leaves + at];
        leaf.highest = refilled + f64::from(leaf.count);
        leaf.at = u32::try_from(at).expect("fewer admissions than that");
        self.rise(self.leaves + at);
    }

    /// Counts one in this span, and in all that began before it.
    fn count(&mut self, at: usize) {
        let leaf = &mut self.nodes[self.leaves + at];
        leaf.count += 1;
        leaf.highest += 1.0;
        self.rise(self.leaves + at);
    }

    fn highest(&self) -> (f64, usize) {
        (self.nodes[1].highest, self.nodes[1].at as usize)
    }

    fn rise(&mut self, mut node: usize) {
        while node > 1 {
            node /= 2;
            let (early, late) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let of_early = early.highest + f64::from(late.count);
            let (highest, at) =
                if of_early >= late.highest { (of_early, early.at) } else { (late.highest, late.at) };
            self.nodes[node] = SpanNode { count: early.count + late.count, highest, at };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_stamps(seed: u64, count: u64) -> Vec<Stamp> {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        (0..count)
            .map(|_| {
                let before = below(1_000);
                Stamp { before, after: before + if below(4) == 0 { below(300) } else { below(3) } }
            })
            .collect()
    }

    fn held(stamps: &[Stamp], begin: u64, end: u64) -> u64 {
        stamps.iter().filter(|stamp| stamp.before >= begin && stamp.after <= end).count() as u64
    }

    #[test]
    fn the_worst_span_is_the_worst_of_all_pairs() {
        for seed in 0..200 {
            let stamps = random_stamps(seed, 1 + seed % 40);
            // A token refills in twenty nanoseconds.
            let rate = 5e7;
            let beside = |begin: &Stamp, end: &Stamp| {
                let length = end.after.checked_sub(begin.before)? as f64;
                Some(held(&stamps, begin.before, end.after) as f64 - length / 20.0)
            };
            let pairs =
                stamps.iter().flat_map(|begin| stamps.iter().filter_map(move |end| beside(begin, end)));
            let expected = pairs.fold(f64::NEG_INFINITY, f64::max);
            let found = worst_span(&stamps, rate).unwrap();
            assert!((found.beside - expected).abs() < 1e-6, "{seed}: {found:?} instead of {expected}");
            let length = (found.end - found.begin) as f64;
            assert_eq!(found.admitted, held(&stamps, found.begin, found.end));
            assert!((found.admitted as f64 - length / 20.0 - expected).abs() < 1e-6, "{seed}: {found:?}");
        }
        assert_eq!(worst_span(&[], 1.0), None);
    }

    #[test]
    fn the_most_of_a_length_is_the_most_of_all_begins() {
        for seed in 0..200 {
            let stamps = random_stamps(seed, 1 + seed % 40);
            for length in [0, 1, 5, 50, 500] {
                let most = (0..1_300).map(|begin| held(&stamps, begin, begin + length)).max().unwrap();
                assert_eq!(most_within(&stamps, length), most, "{seed}, {length}: {stamps:?}");
            }
        }
    }
}
