//! What a lease comes to under the rules of a request: how long, how much, or why not at all.

use std::fmt;
use std::time::Duration;

use super::lease::{Lease, LeaseTerm};
use super::rule::Rule;
use crate::{Algorithm, Nanos, Quota};

/// How tokens are taken ahead under some rules: the strictest of what each of them permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leasing {
    /// How long after the store was asked the tokens may be handed out.
    pub life: Nanos,
    /// The most tokens that are asked for at once: an eighth of the least burst.
    pub most: u64,
    /// Whether tokens that are left at the end are given back. A sliding window cannot take them back: a return would count
    /// for another window than the charge did.
    pub gives_back: bool,
}

impl Leasing {
    /// One call takes at most the burst divided by this.
    const PARTS: u64 = 8;

    /// What is worth taking ahead at least.
    const LEAST: u64 = 4;

    /// The least burst of a rule that is leased.
    pub const LEAST_BURST: u64 = Self::PARTS * Self::LEAST;

    /// Returns what a lease comes to for a request that brings its own quota.
    ///
    /// # Errors
    ///
    /// If such requests always ask the store; the error says why.
    #[inline]
    pub fn of_quota(lease: Lease, quota: &Quota) -> Result<Self, NotLeased> {
        let term = lease.term();
        if term == LeaseTerm::Off {
            return Err(NotLeased::Off);
        }
        match quota.algorithm() {
            Algorithm::SlidingLog => return Err(NotLeased::Log),
            Algorithm::Concurrency => return Err(NotLeased::Places),
            _ => {}
        }
        let burst = quota.burst();
        if burst < Self::LEAST_BURST {
            return Err(NotLeased::SmallBurst { burst });
        }
        let refill = exact_refill(quota);
        let life = life(term, refill).map_err(|least| NotLeased::ShortRefill { lease, refill, least })?;
        let gives_back = quota.algorithm() != Algorithm::SlidingWindow;
        Ok(Leasing { life, most: burst / Self::PARTS, gives_back })
    }

    /// Returns what a lease comes to for one rule of a plan.
    ///
    /// # Errors
    ///
    /// If requests under this rule always ask the store; the error says why.
    pub fn of_rule(lease: Lease, rule: &Rule) -> Result<Self, NotLeased> {
        let is_at_a_rate = !lease.is_off() && !rule.is_concurrency();
        if is_at_a_rate && rule.is_shadow() {
            return Err(NotLeased::Shadow);
        }
        if is_at_a_rate && !rule.unit().is_requests() {
            return Err(NotLeased::OtherUnit);
        }
        Self::of_quota(lease, rule.quota())
    }

    /// Returns what a lease comes to for all of these rules together, at least one.
    ///
    /// # Errors
    ///
    /// If requests under these rules always ask the store; the error is that of the first rule that is the reason.
    pub(super) fn of_rules(lease: Lease, rules: &[Rule]) -> Result<Self, NotLeased> {
        let mut each = rules.iter().map(|rule| Self::of_rule(lease, rule));
        let first = each.next().unwrap_or(Err(NotLeased::Off))?;
        each.try_fold(first, |all, one| Ok(all.join(one?)))
    }

    /// Returns what both permit: the shorter life and the smaller amount; given back only if both are.
    #[inline]
    #[must_use]
    pub fn join(self, other: Leasing) -> Self {
        Leasing {
            life: self.life.min(other.life),
            most: self.most.min(other.most),
            gives_back: self.gives_back && other.gives_back,
        }
    }

    /// Returns how much beside its quota a rule may admit in any span of time: what refills during one lease. Nothing of a
    /// fixed window, where a lease ends with its window.
    pub fn excess(self, quota: &Quota) -> u64 {
        Self::refilled(quota, self.life)
    }

    /// Returns how much of a quota refills within a span, rounded up. In a fixed window nothing does.
    pub fn refilled(quota: &Quota, span: Nanos) -> u64 {
        let span = span.as_nanos();
        match quota.algorithm() {
            Algorithm::FixedWindow(_) | Algorithm::Concurrency => 0,
            Algorithm::Gcra => span.div_ceil(quota.emission_interval().as_nanos()),
            _ => {
                let product = u128::from(span) * u128::from(quota.count());
                let tokens = product.div_ceil(quota.period().as_nanos().into());
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Returns the time in which an empty quota becomes full, rounded down. [`Quota::refill_time`] is made of whole intervals,
/// rounded up: for what counts in fractions that is too long, and a share of it more than that share of the burst.
fn exact_refill(quota: &Quota) -> Nanos {
    match quota.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            let product = u128::from(quota.burst()) * u128::from(quota.period().as_nanos());
            let exact = u64::try_from(product / u128::from(quota.count())).unwrap_or(u64::MAX);
            Nanos::from_nanos(exact)
        }
        _ => quota.refill_time(),
    }
}

/// Returns how long a lease of a rule lasts that refills in this time; else the least refill time that would do.
#[inline]
fn life(term: LeaseTerm, refill: Nanos) -> Result<Nanos, Nanos> {
    const SHORTEST: u64 = nanos(Lease::SHORTEST);
    const LONGEST_SHARE: u64 = nanos(Lease::LONGEST_SHARE);
    let refill = refill.as_nanos();
    match term {
        LeaseTerm::Off => Err(Nanos::MAX),
        LeaseTerm::Share(percent) => {
            let percent = u64::from(percent);
            // A refill time may be 200 years, 2^63 ns: hundredths first, and what they leave over.
            let share = refill / 100 * percent + refill % 100 * percent / 100;
            match share {
                0..SHORTEST => Err(Nanos::from_nanos((SHORTEST * 100).div_ceil(percent))),
                _ => Ok(Nanos::from_nanos(share.min(LONGEST_SHARE))),
            }
        }
        LeaseTerm::Millis(millis) => {
            let life = Nanos::from_millis(millis);
            let least = life.saturating_add(life);
            if refill < least.as_nanos() { Err(least) } else { Ok(life) }
        }
    }
}

/// Returns the nanoseconds of a time that is far from 584 years.
const fn nanos(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + time.subsec_nanos() as u64
}

/// Why requests under some rules always ask the store. Its text says so in plain words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotLeased {
    /// Nobody has asked for leases.
    Off,
    /// A rule is a sliding window log.
    Log,
    /// A rule limits what is in flight.
    Places,
    /// A rule counts something else than requests.
    OtherUnit,
    /// A rule is in shadow.
    Shadow,
    /// What a hold that nobody ended had taken is given back.
    Refunds,
    /// A rule's burst is too small to be shared out.
    SmallBurst {
        /// The burst.
        burst: u64,
    },
    /// A rule refills in so short a time that a lease would be too short, or too large a part of it.
    ShortRefill {
        /// The lease that was asked for.
        lease: Lease,
        /// The time in which the rule refills.
        refill: Nanos,
        /// The least refill time with which there would be a lease.
        least: Nanos,
    },
}

impl fmt::Display for NotLeased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotLeased::Off => f.write_str("leases are off"),
            NotLeased::Log => f.write_str("the log is exact"),
            NotLeased::Places => f.write_str("places in flight have leases of their own"),
            NotLeased::OtherUnit => f.write_str("it counts another unit than requests"),
            NotLeased::Shadow => f.write_str("it is in shadow"),
            NotLeased::Refunds => f.write_str("lapsed holds are given back (`on_lapse`)"),
            NotLeased::SmallBurst { burst } => {
                write!(f, "the burst is {burst}; a lease needs at least {}", Leasing::LEAST_BURST)
            }
            NotLeased::ShortRefill { lease, refill, least } => {
                write!(f, "it refills in {refill}; a lease of {lease} needs at least {least}")
            }
        }
    }
}

impl std::error::Error for NotLeased {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{OnLapse, Plan, Rules};

    fn plan(text: &str, lease: &str) -> Plan {
        Plan::parse("api", text).unwrap().lease(lease.parse().unwrap()).unwrap()
    }

    fn leasing(text: &str, lease: &str) -> (u64, u64, bool) {
        let leasing = plan(text, lease).leasing().unwrap();
        (leasing.life.as_nanos() / 1_000_000, leasing.most, leasing.gives_back)
    }

    fn why_not(text: &str, lease: &str) -> String {
        plan(text, lease).not_leased().unwrap().to_string()
    }

    #[test]
    fn a_share_is_of_the_time_in_which_the_burst_refills() {
        assert_eq!(leasing("100000/s", "10%"), (100, 12_500, true));
        assert_eq!(leasing("100000/s burst 20000", "10%"), (20, 2_500, true));
        assert_eq!(leasing("60/m", "1%"), (500, 7, true), "500 ms at most");
        assert_eq!(leasing("1000/s bucket", "50%"), (500, 125, true));
        assert_eq!(leasing("1000/s fixed grid", "10%"), (100, 125, true));
        assert_eq!(leasing("1000/s sliding", "10%"), (100, 125, false));
        assert_eq!(leasing("100000/s", "50ms"), (50, 12_500, true));
        assert_eq!(leasing("60/m", "10s"), (10_000, 7, true), "a time is what it says");
    }

    #[test]
    fn rules_together_have_the_strictest_lease() {
        assert_eq!(leasing("100000/s; 1000000/m; daily=800/day fixed", "10%"), (100, 100, true));
        assert_eq!(leasing("100000/s; 1000000/m sliding", "10%"), (100, 12_500, false));
        let own = Lease::OFF;
        let (api, slow) = (Arc::new(plan("100000/s", "10%")), Arc::new(plan("6000/m", "40ms")));
        let both = [Arc::clone(&api), Arc::clone(&slow)];
        let joined = Rules::Plans(&both).leasing(own).unwrap();
        assert_eq!((joined.life, joined.most), (Nanos::from_millis(40), 750));
        let exact = [api, Arc::new(plan("100000/s", "off"))];
        assert_eq!(
            Rules::Plans(&exact).leasing(own),
            None,
            "one plan without a lease, and the request is exact"
        );
        assert_eq!(Rules::Plans(&[]).leasing(own), None);
    }

    #[test]
    fn a_quota_of_a_request_has_the_lease_of_the_store() {
        let quota: Quota = "100000/s".parse().unwrap();
        assert_eq!(Rules::Quota(&quota).leasing(Lease::OFF), None);
        let lease: Lease = "50ms".parse().unwrap();
        assert_eq!(Rules::Quota(&quota).leasing(lease).unwrap().life, Nanos::from_millis(50));
        let short: Quota = "100000/s burst 9999".parse().unwrap();
        let why = Leasing::of_quota(lease, &short).unwrap_err().to_string();
        assert_eq!(why, "it refills in 99.99ms; a lease of 50ms needs at least 100ms");
    }

    #[test]
    fn what_is_never_leased_says_why() {
        assert_eq!(why_not("100000/s", "off"), "leases are off");
        assert_eq!(why_not("100000/s; 1000/m log", "10%"), "the log is exact");
        assert_eq!(why_not("100000/s; 80 concurrent", "10%"), "places in flight have leases of their own");
        assert_eq!(why_not("100000/s; 1000 tokens/m", "10%"), "it counts another unit than requests");
        assert_eq!(why_not("31/s", "10%"), "the burst is 31; a lease needs at least 32");
        assert_eq!(leasing("32/s", "10%"), (100, 4, true));
        let short = why_not("100000/s burst 19999", "10%");
        assert_eq!(short, "it refills in 199.99ms; a lease of 10% needs at least 200ms");
        let why_of = |plan: Plan| plan.not_leased().unwrap();
        assert_eq!(why_of(plan("100000/s", "10%").shadow()), NotLeased::Shadow);
        assert_eq!(why_of(plan("100000/s", "10%").on_lapse(OnLapse::Refund)), NotLeased::Refunds);
    }

    #[test]
    fn a_time_that_is_too_long_for_a_rule_is_refused_with_the_longest_that_is_not() {
        let error = |text: &str, lease: &str| {
            let plan = Plan::parse("api", text).unwrap();
            plan.lease(lease.parse().unwrap()).unwrap_err().to_string()
        };
        assert_eq!(
            error("60/m; 1000/s", "501ms"),
            "lease: `501ms`; at most `500ms`, half of the 1s in which rule `per-s` refills"
        );
        assert_eq!(leasing("60/m; 1000/s", "500ms").0, 500);
        assert_eq!(
            error("100000/s burst 3999", "20ms"),
            "lease: `20ms`; `off`, because rule `per-s` refills in 39.99ms, and no lease is shorter than half of that"
        );
        // Rules that are never leased refuse nothing.
        for text in ["10/s burst 1", "1000/s log", "1000 tokens/s"] {
            assert!(plan(text, "10s").leasing().is_none(), "{text}");
        }
        assert!(Plan::parse("api", "1000/s").unwrap().shadow().lease("10s".parse().unwrap()).is_ok());
    }

    #[test]
    fn a_plan_in_flight_in_shadow_is_leased_as_it_is_acquired() {
        let plan = Plan::with_shadow("api", ["100000/s"], ["80 concurrent"]).unwrap();
        let plan = plan.lease("10%".parse().unwrap()).unwrap();
        assert_eq!(plan.not_leased(), Some(NotLeased::Places));
        assert_eq!(plan.to_acquire().unwrap().leasing().unwrap().most, 12_500);
    }

    #[test]
    fn settings_keep_the_lease() {
        let leased =
            plan("100000/s", "10%").on_lapse(OnLapse::Keep).on_store_error(crate::FailureMode::Closed);
        assert!(leased.leasing().is_some());
        assert_ne!(plan("100000/s", "10%"), plan("100000/s", "20%"), "a reload sees that they differ");
        assert_ne!(plan("100000/s", "10%"), plan("100000/s", "off"));
    }

    #[test]
    fn the_fingerprint_is_that_of_the_rules() {
        let of = |plan: &Plan| plan.fingerprint();
        let parse = |name: &str, text: &str| Plan::parse(name, text).unwrap();
        let api = parse("api", "100/s; 1000/m");
        assert_eq!(of(&api), of(&parse("api", "100/s; 1000/m")));
        assert_eq!(of(&api), of(&api.clone().lease("10%".parse().unwrap()).unwrap()));
        let others =
            ["101/s; 1000/m", "100/s burst 99; 1000/m", "100/s; 1000/m bucket", "100/s", "1000/m; 100/s"];
        for other in others {
            assert_ne!(of(&api), of(&parse("api", other)), "{other}");
        }
        assert_ne!(of(&api), of(&parse("web", "100/s; 1000/m")));
        assert_ne!(of(&api), of(&api.clone().shadow()));
    }
}
