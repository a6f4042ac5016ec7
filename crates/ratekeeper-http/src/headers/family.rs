//! What each family of fields said, and how the families add up.

use std::time::Duration;

use super::fields::MAX_ENTRIES;
use super::quota_policy::QuotaPolicy;
use super::server_limits::ServerLimit;

/// Resets that differ by no more than this may be the same reset: one family counts seconds, another names the
/// second it falls into, and both round.
const RESET_SLACK: Duration = Duration::from_secs(2);

/// What one family of fields said.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) limits: Vec<ServerLimit>,
    pub(crate) policies: Vec<QuotaPolicy>,
}

impl Family {
    /// Takes in what a family of lower rank said, by the rules in the [module's documentation](super).
    pub(crate) fn absorb(&mut self, lower: Family) {
        let ranked = self.limits.len();
        for new in lower.limits {
            let (higher, own) = self.limits.split_at_mut(ranked);
            let named = new.name.is_some();
            let namesake = higher.iter().position(|old| named && old.name == new.name);
            // A nameless limit that agrees in its numbers is the same one, told twice.
            let twin = || higher.iter().position(|old| (old.name.is_none() || !named) && agree(old, &new));
            match namesake.or_else(twin) {
                Some(index) => complete(&mut higher[index], new),
                None if own.contains(&new) || ranked + own.len() >= MAX_ENTRIES => (),
                None => self.limits.push(new),
            }
        }
        for new in lower.policies {
            match self.policies.iter().position(|old| same_policy(old, &new)) {
                Some(index) => {
                    let old = &mut self.policies[index];
                    old.name = old.name.take().or(new.name);
                }
                None if self.policies.len() >= MAX_ENTRIES => (),
                None => self.policies.push(new),
            }
        }
    }
}

/// Whether no number that both know differs.
fn agree(a: &ServerLimit, b: &ServerLimit) -> bool {
    let counts = |a: Option<u64>, b: Option<u64>| a.zip(b).is_none_or(|(a, b)| a == b);
    let resets = a.reset.zip(b.reset).is_none_or(|(a, b)| a.abs_diff(b) <= RESET_SLACK);
    counts(a.limit, b.limit) && counts(a.remaining, b.remaining) && resets
}

/// Fills the gaps of `old`; a namesake with other numbers has nothing to add.
fn complete(old: &mut ServerLimit, new: ServerLimit) {
    if agree(old, &new) {
        old.name = old.name.take().or(new.name);
        old.limit = old.limit.or(new.limit);
        old.remaining = old.remaining.or(new.remaining);
        old.reset = old.reset.or(new.reset);
    }
}

fn same_policy(old: &QuotaPolicy, new: &QuotaPolicy) -> bool {
    let names = old.name.is_none() || new.name.is_none() || old.name == new.name;
    let keys = old.partition_key == new.partition_key;
    names && keys && old.quota == new.quota && old.window == new.window && old.unit == new.unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn limit(name: &str, limit: u64, remaining: u64, reset: u64) -> ServerLimit {
        let some = |n: u64| (n != u64::MAX).then_some(n);
        ServerLimit {
            name: (!name.is_empty()).then(|| name.to_owned()),
            limit: some(limit),
            remaining: some(remaining),
            reset: some(reset).map(Duration::from_secs),
        }
    }

    const NO: u64 = u64::MAX;

    #[track_caller]
    fn absorbs(higher: &[ServerLimit], lower: &[ServerLimit], expected: &[ServerLimit]) {
        let family = |limits: &[ServerLimit]| Family { limits: limits.to_vec(), policies: Vec::new() };
        let mut all = Family::default();
        all.absorb(family(higher));
        all.absorb(family(lower));
        assert_eq!(all.limits, expected);
    }

    #[test]
    fn told_twice_is_one() {
        absorbs(&[limit("a", NO, 5, 30)], &[limit("", 9, 5, 31)], &[limit("a", 9, 5, 30)]);
        absorbs(&[limit("", 20, 7, 13)], &[limit("minute", 20, 7, NO)], &[limit("minute", 20, 7, 13)]);
        absorbs(&[limit("", 20, 7, 13)], &[limit("", 20, 7, 13)], &[limit("", 20, 7, 13)]);
        absorbs(&[limit("a", 1, 1, 1), limit("a", 1, 1, 1)], &[], &[limit("a", 1, 1, 1)]);
    }

    #[test]
    fn different_limits_stay_apart() {
        let (a, b) = (limit("a", 9, 5, 30), limit("b", 9, 5, 30));
        absorbs(from_ref(&a), from_ref(&b), &[a.clone(), b.clone()]);
        for other in [limit("", 8, 5, 30), limit("", 9, 4, 30), limit("", 9, 5, 33)] {
            absorbs(from_ref(&a), from_ref(&other), &[a.clone(), other.clone()]);
        }
        let (first, second) = (limit("a", 1, 1, 1), limit("a", 1, 0, 1));
        absorbs(&[first.clone(), second.clone()], &[], &[first, second]);
    }

    #[test]
    fn the_higher_rank_is_right_about_a_name() {
        absorbs(&[limit("a", NO, 5, 30)], &[limit("a", 9, 8, 31)], &[limit("a", NO, 5, 30)]);
        absorbs(&[limit("a", NO, 5, 30)], &[limit("a", 9, NO, NO)], &[limit("a", 9, 5, 30)]);
    }

    #[test]
    fn policies_add_up() {
        let minute = QuotaPolicy::new("minute", 20).window(Duration::from_secs(60));
        let nameless = QuotaPolicy { name: None, ..minute.clone() };
        let hour = QuotaPolicy::new("hour", 20).window(Duration::from_secs(3600));
        let mut all = Family { limits: vec![], policies: vec![minute.clone()] };
        let lower = vec![nameless.clone(), minute.clone(), hour.clone()];
        all.absorb(Family { limits: vec![], policies: lower });
        assert_eq!(all.policies, [minute.clone(), hour]);
        let mut all = Family { limits: vec![], policies: vec![nameless] };
        all.absorb(Family { limits: vec![], policies: vec![minute.clone()] });
        assert_eq!(all.policies, [minute]);
    }
}
