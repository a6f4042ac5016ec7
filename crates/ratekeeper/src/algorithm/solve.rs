//! A search for the exact instant at which a floating-point predicate becomes true.

/// Returns the least `t` with `holds(t)`, for a predicate that stays true once it is; `None` if there is none up to `most`.
///
/// A formula in floating point is off by a few units in the last place, which at years of nanoseconds is
/// microseconds. So the formula only supplies the `guess`: the search widens from there until it has the turn
/// between two instants, and then halves. Some five evaluations when the guess is good, and 128 at the worst.
pub(super) fn first_instant(guess: u64, most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let mut step = 1;
    let (mut fails_below, mut holds_at);
    let guess = guess.min(most);
    if holds(guess) {
        // Invariant: holds(holds_at), and everything below fails_below fails.
        holds_at = guess;
        loop {
            if holds_at == 0 {
                return Some(0);
            }
            let earlier = holds_at.saturating_sub(step);
            if !holds(earlier) {
                fails_below = earlier + 1;
                break;
            }
            holds_at = earlier;
            step = step.saturating_mul(2);
        }
    } else {
        fails_below = guess;
        loop {
            if fails_below == most {
                return None;
            }
            let later = fails_below.saturating_add(step).min(most);
            if holds(later) {
                holds_at = later;
                fails_below += 1;
                break;
            }
            fails_below = later;
            step = step.saturating_mul(2);
        }
    }
    while fails_below < holds_at {
        let middle = fails_below + (holds_at - fails_below) / 2;
        if holds(middle) {
            holds_at = middle;
        } else {
            fails_below = middle + 1;
        }
    }
    Some(holds_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_turn_from_any_guess() {
        for turn in [0, 1, 2, 63, 64, 1_000, u64::MAX - 1, u64::MAX] {
            for guess in [0, 1, 5, 64, 999, 1_000, 1_001, u64::MAX / 2, u64::MAX] {
                assert_eq!(first_instant(guess, u64::MAX, |t| t >= turn), Some(turn), "{turn} from {guess}");
            }
        }
    }

    #[test]
    fn tells_when_there_is_none() {
        assert_eq!(first_instant(7, 100, |_| false), None);
        assert_eq!(first_instant(700, 100, |t| t >= 101), None);
        assert_eq!(first_instant(0, 100, |t| t >= 100), Some(100));
    }
}
