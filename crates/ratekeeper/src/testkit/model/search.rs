//! The two searches by which the model finds its numbers.

/// Returns the first instant from `start` on at which a predicate that stays true holds; `None` if it does not within some
/// 2^80 nanoseconds, which is for ever.
pub(super) fn first(start: i128, holds: impl Fn(i128) -> bool) -> Option<i128> {
    if holds(start) {
        return Some(start);
    }
    // Fails at `start + fails`, holds at `start + span`.
    let (mut fails, mut span) = (0, 1);
    while !holds(start + span) {
        fails = span;
        span *= 2;
        if span > 1 << 80 {
            return None;
        }
    }
    while span - fails > 1 {
        let middle = fails + (span - fails) / 2;
        if holds(start + middle) {
            span = middle;
        } else {
            fails = middle;
        }
    }
    Some(start + span)
}

/// Returns the largest number up to `most` for which a predicate holds that holds for all smaller ones; 0 if for none.
pub(super) fn last(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut least, mut most) = (0, most);
    while least < most {
        let middle = least + (most - least).div_ceil(2);
        if holds(middle) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    least
}
