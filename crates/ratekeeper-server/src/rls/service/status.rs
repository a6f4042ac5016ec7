//! What a descriptor is told.

use ratekeeper::port::ChargeStanding;
use ratekeeper::{Decision, Plan, Reason, Timestamp};

use super::applied::{Applied, AppliedLimit, Case};
use crate::rls::answer::{CurrentLimit, DescriptorStatus, RlsCode};
use crate::rls::counting::HitSplit;
use crate::rls::rule::ToldLimit;
use crate::rls::unit::LimitUnit;

const NANOS_PER_SECOND: i64 = 1_000_000_000;

impl Case<'_> {
    /// Returns the status of a descriptor that no store was asked about; bans last until the end of their unit.
    pub(super) fn status(&self, now: impl FnOnce() -> Timestamp) -> DescriptorStatus {
        let status = |limit_remaining| DescriptorStatus {
            code: RlsCode::Ok,
            current_limit: None,
            limit_remaining,
            until_reset: None,
        };
        match self.applied {
            Applied::Unlimited => status(u32::MAX),
            Applied::Banned(unit) => DescriptorStatus {
                code: self.code(!self.is_negative),
                current_limit: Some(self.current_limit(0, Some(unit))),
                limit_remaining: 0,
                until_reset: Some(until_end(unit, now())),
            },
            Applied::Nothing | Applied::Limited(_) => status(0),
        }
    }

    /// Returns the status of a descriptor that was judged.
    pub(super) fn status_of(
        &self,
        limited: &AppliedLimit<'_>,
        standing: &ChargeStanding,
    ) -> DescriptorStatus {
        let decision = &standing.decision;
        let is_over = !decision.allowed && !self.is_negative;
        if !is_over && decision.reason == Reason::FailOpen {
            // Nobody knows where it stands: what is told of a descriptor without a limit is true of this one, too.
            return DescriptorStatus {
                code: RlsCode::Ok,
                current_limit: None,
                limit_remaining: 0,
                until_reset: None,
            };
        }
        let (count, unit) = told(limited, decision);
        DescriptorStatus {
            code: self.code(is_over),
            current_limit: Some(self.current_limit(count, unit)),
            limit_remaining: if is_over { 0 } else { saturated(decision.remaining) },
            until_reset: Some(until_reset(decision, is_over)),
        }
    }

    fn code(&self, is_over: bool) -> RlsCode {
        if is_over && !self.is_shadow { RlsCode::OverLimit } else { RlsCode::Ok }
    }

    fn current_limit(&self, requests_per_unit: u32, unit: Option<LimitUnit>) -> CurrentLimit {
        CurrentLimit { requests_per_unit, unit, name: self.name.to_owned() }
    }

    /// Counts the hits of a descriptor that no store was asked about.
    pub(super) fn count(&self) {
        if let Applied::Banned(_) = self.applied {
            self.count_as(HitSplit::unknown(self.hits, true));
        }
    }

    /// Counts the hits of a descriptor that was judged.
    pub(super) fn count_of(&self, limited: &AppliedLimit<'_>, standing: &ChargeStanding, near_ratio: f32) {
        let decision = &standing.decision;
        self.count_as(match decision.reason.is_informed() {
            true => {
                HitSplit::new(self.hits, decision.limit, standing.left_before, !decision.allowed, near_ratio)
            }
            false => HitSplit::unknown(self.hits, !decision.allowed),
        });
        // Of a plan without rules in shadow nothing is told rule by rule.
        let mut rules = limited.plan.rules().iter().zip(&standing.rules);
        if let Some(counts) = &self.counts
            && !self.is_negative
            && rules.any(|(rule, decision)| rule.is_shadow() && !decision.allowed)
        {
            counts.over_shadow(self.hits);
        }
    }

    fn count_as(&self, split: HitSplit) {
        let Some(counts) = &self.counts else { return };
        if self.is_negative {
            return counts.given_back(self.hits);
        }
        counts.judged(self.hits, split);
        if self.is_shadow {
            counts.passed_in_shadow(split.over);
        }
    }
}

/// Returns the limit and the unit that are told.
fn told(limited: &AppliedLimit<'_>, decision: &Decision) -> (u32, Option<LimitUnit>) {
    match limited.told {
        ToldLimit::AsWritten { requests_per_unit, unit } => (requests_per_unit, unit),
        ToldLimit::ByBinding => match binding(&limited.plan, decision) {
            Some(rule) => (saturated(rule.quota().count()), LimitUnit::of_length(rule.quota().period())),
            None => (saturated(decision.limit), None),
        },
    }
}

/// Returns the rule that bound a decision.
pub(super) fn binding<'p>(plan: &'p Plan, decision: &Decision) -> Option<&'p ratekeeper::Rule> {
    plan.rules().get(usize::from(decision.rule))
}

/// Returns whole seconds, rounded up: until it is whole again, or, if it is over, until these very hits would pass.
fn until_reset(decision: &Decision, is_over: bool) -> u64 {
    match is_over {
        true => decision.retry_after.unwrap_or(decision.reset_after).ceil_secs().max(1),
        false => decision.reset_after.ceil_secs(),
    }
}

/// Returns the seconds until a unit ends that began at a multiple of its length since the epoch.
fn until_end(unit: LimitUnit, now: Timestamp) -> u64 {
    let length = unit.length().ceil_secs();
    let into =
        now.as_nanos().div_euclid(NANOS_PER_SECOND).rem_euclid(i64::try_from(length).unwrap_or(i64::MAX));
    length - into.unsigned_abs()
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_end_at_multiples_since_the_epoch() {
        let now = Timestamp::from_secs(1_700_000_000);
        let ends = [1, 40, 2_800, 6_400, 352_000, 2_944_000, 92_800];
        assert_eq!(LimitUnit::ALL.map(|unit| until_end(unit, now)), ends);
        assert_eq!(until_end(LimitUnit::Minute, Timestamp::from_secs(60)), 60);
        assert_eq!(until_end(LimitUnit::Minute, Timestamp::from_nanos(59_999_999_999)), 1);
        assert_eq!(until_end(LimitUnit::Minute, Timestamp::from_secs(-1)), 1);
    }
}
