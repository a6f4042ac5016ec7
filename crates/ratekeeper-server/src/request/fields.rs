//! What clients write, field by field: defaults are filled in here, and bounds checked.

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::HoldRequest;
use ratekeeper::{Charged, Cost, Key, Nanos, Quota};

use super::error::{AdminVerb, RequestError};
use super::field::RequestField;
use super::holds::checked_lease;
use super::limits::RequestLimits;
use super::units::{said, within};
use super::wire_request::{RequestedCharge, RequestedLimits, WireRequest};
use crate::secret::{Admin, AdminRight};

/// The numbers of a throttle; `None` where the client left one out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThrottleFields {
    /// The burst; `[limits] default_burst` if left out.
    pub(crate) max_burst: Option<i64>,
    /// The count; `[limits] default_rate` if left out.
    pub(crate) count_per_period: Option<i64>,
    /// The period in seconds; `[limits] default_period` if left out.
    pub(crate) period: Option<i64>,
    /// How much to take; 1 if left out.
    pub(crate) quantity: Option<i64>,
}

/// What the numbers of a throttle mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThrottleDialect {
    /// Capacity is `max_burst`, and a quantity is at least 0.
    Throttle,
    /// As the Redis module redis-cell has it: capacity is `max_burst + 1`, and a negative quantity gives back.
    RedisCell,
}

/// What a throttle takes from, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckedThrottle {
    /// The quota.
    pub(crate) quota: Quota,
    /// How much is taken, or given back.
    pub(crate) cost: Cost,
    /// True if it is given back.
    pub(crate) is_refund: bool,
}

impl ThrottleFields {
    /// Returns what the numbers mean. Allocates nothing unless something is wrong.
    ///
    /// # Errors
    ///
    /// The server takes no quotas from requests, a number is missing and has no default, or one is out of range.
    #[inline]
    pub(crate) fn check(
        self,
        dialect: ThrottleDialect,
        limits: &RequestLimits,
    ) -> Result<CheckedThrottle, RequestError> {
        limits.admits_quotas()?;
        let filled = |given: Option<i64>, field| {
            given.or_else(|| limits.default_of(field)).ok_or(RequestError::Missing(field))
        };
        let max_burst = filled(self.max_burst, RequestField::MaxBurst)?;
        let count = filled(self.count_per_period, RequestField::CountPerPeriod)?;
        let period = filled(self.period, RequestField::Period)?;
        let quantity = filled(self.quantity, RequestField::Quantity)?;
        let capacity = match dialect {
            ThrottleDialect::Throttle => max_burst,
            ThrottleDialect::RedisCell if max_burst < 0 => {
                return Err(too_low(RequestField::MaxBurst, max_burst));
            }
            ThrottleDialect::RedisCell => max_burst.saturating_add(1),
        };
        let quota = limits.throttle(capacity, count, period)?;
        let is_refund = quantity < 0;
        if is_refund && dialect == ThrottleDialect::Throttle {
            return Err(too_low(RequestField::Quantity, quantity));
        }
        Ok(CheckedThrottle { quota, cost: Cost::new(quantity.unsigned_abs()), is_refund })
    }
}

#[cold]
fn too_low(field: RequestField, value: i64) -> RequestError {
    RequestError::Invalid(field, format!("{value}; must be at least 0"))
}

impl CheckedThrottle {
    /// Returns the request that this is for a key, by one who may do so much.
    ///
    /// # Errors
    ///
    /// It gives back, which only an administrator may. What it gives back was charged just now: no dialect of a throttle can
    /// say when it was.
    pub(crate) fn request<'a>(
        self,
        key: Key<'a>,
        right: AdminRight,
    ) -> Result<WireRequest<'a>, RequestError> {
        let limits = RequestedLimits::Quota(self.quota);
        let charge = RequestedCharge { key, limits, amounts: self.cost.into(), tells_each: false };
        if self.is_refund {
            return Ok(WireRequest::Refund(charge, Charged::NOW, AdminVerb::Refund.by(right)?));
        }
        Ok(WireRequest::Acquire(charge))
    }
}

/// The verbs of requests that name plans, or bring a quota in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanVerb {
    /// Takes a cost.
    Acquire,
    /// Tells what taking a cost would be answered.
    Peek,
    /// Gives a cost back.
    Refund,
    /// Charges a cost, whether it passes or not.
    Debit,
    /// Takes an estimate until it is ended.
    Hold,
    /// Forgets a key.
    Reset,
}

impl PlanVerb {
    /// Returns true if the answer refuses what was asked for: a denial is no more than an answer to the others.
    pub(crate) const fn refuses(self) -> bool {
        matches!(self, PlanVerb::Acquire | PlanVerb::Hold)
    }

    /// Returns what only an administrator may do, if it is that.
    pub(crate) const fn admin_verb(self) -> Option<AdminVerb> {
        match self {
            PlanVerb::Refund => Some(AdminVerb::Refund),
            PlanVerb::Debit => Some(AdminVerb::Debit),
            PlanVerb::Reset => Some(AdminVerb::Reset),
            PlanVerb::Acquire | PlanVerb::Peek | PlanVerb::Hold => None,
        }
    }
}

/// The fields of a request that names plans, or brings a quota in words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanFields<'a> {
    /// Who asks.
    pub(crate) key: &'a [u8],
    /// The names of plans.
    pub(crate) plans: &'a [&'a str],
    /// A quota in words.
    pub(crate) quota: Option<&'a str>,
    /// How many requests; 1 if left out.
    pub(crate) cost: Option<u64>,
    /// How much of which unit.
    pub(crate) units: &'a [(&'a str, u64)],
    /// Of a refund: how long ago the cost was charged; just now if left out.
    pub(crate) charged_ago: Option<Nanos>,
    /// Of a hold: how long it lasts unless it is ended before.
    pub(crate) lease: Option<Nanos>,
    /// Whether the answer tells of every rule.
    pub(crate) each: bool,
}

impl<'a> PlanFields<'a> {
    /// Returns the request that the fields of this verb mean, by one who may do so much.
    ///
    /// # Errors
    ///
    /// Only an administrator may do this, the key is none, there are neither plans nor a quota or there are both, the quota is not admitted or to be held, or
    /// the lease is too short or too long.
    pub(crate) fn check(
        self,
        verb: PlanVerb,
        limits: &RequestLimits,
        right: AdminRight,
    ) -> Result<WireRequest<'a>, RequestError> {
        // Before anything is said about what was sent.
        verb.admin_verb().map_or(Ok(()), |verb| verb.by(right).map(drop))?;
        let key = Key::new(self.key)?;
        // Whatever was admitted once can be forgotten, also after the bounds have become narrower.
        let limits = if verb == PlanVerb::Reset { &RequestLimits::NONE } else { limits };
        let held_to = match (self.quota, self.plans) {
            (Some(_), []) if verb == PlanVerb::Hold => return Err(KeeperError::HoldWithoutPlan.into()),
            (Some(text), []) => RequestedLimits::Quota(limits.parse(text)?),
            (None, [_, ..]) => RequestedLimits::Plans(self.plans),
            (None, []) if verb == PlanVerb::Reset => RequestedLimits::All,
            (None, []) => return Err(RequestError::Missing(RequestField::Plan)),
            (Some(_), [_, ..]) => return Err(together(RequestField::Quota, "plans")),
        };
        let amounts = said(self.cost, self.units);
        let charge = RequestedCharge { key, limits: held_to, amounts, tells_each: self.each };
        Ok(match verb {
            PlanVerb::Acquire => WireRequest::Acquire(charge),
            PlanVerb::Peek => WireRequest::Peek(charge),
            PlanVerb::Refund => {
                let charged = Charged::ago(self.charged_ago.unwrap_or(Nanos::ZERO));
                WireRequest::Refund(charge, charged, AdminVerb::Refund.by(right)?)
            }
            PlanVerb::Debit => {
                within(self.cost)?;
                WireRequest::Debit(charge, AdminVerb::Debit.by(right)?)
            }
            PlanVerb::Hold => {
                within(self.cost)?;
                let lease = self.lease.unwrap_or(HoldRequest::DEFAULT_LEASE);
                WireRequest::Hold(charge, checked_lease(lease)?)
            }
            PlanVerb::Reset => WireRequest::Reset(key, held_to, AdminVerb::Reset.by(right)?),
        })
    }
}

/// The fields of a request to forget many keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForgetFields<'a> {
    /// What the keys start with.
    pub(crate) prefix: Option<&'a [u8]>,
    /// True if all keys are meant.
    pub(crate) all: bool,
}

impl<'a> ForgetFields<'a> {
    /// Returns the request that the fields mean. That all keys are meant has to be said: an empty prefix may be a
    /// mistake.
    ///
    /// # Errors
    ///
    /// There is no prefix and not all keys are meant, or both are said.
    pub(crate) fn check(self, admin: Admin) -> Result<WireRequest<'a>, RequestError> {
        match (self.prefix, self.all) {
            (None, true) => Ok(WireRequest::Forget(b"", admin)),
            (Some(_), true) => Err(together(RequestField::Prefix, "`all`")),
            (None | Some(b""), false) => Err(RequestError::Missing(RequestField::Prefix)),
            (Some(prefix), false) => Ok(WireRequest::Forget(prefix, admin)),
        }
    }
}

#[cold]
fn together(field: RequestField, other: &str) -> RequestError {
    RequestError::Invalid(field, format!("together with {other}; say one of them"))
}

#[cfg(test)]
mod tests {
    use ratekeeper::Amounts;

    use super::*;
    use crate::secret::NotAdmin;

    fn throttle(dialect: ThrottleDialect, numbers: [i64; 4]) -> Result<CheckedThrottle, String> {
        let [max_burst, count_per_period, period, quantity] = numbers.map(Some);
        let fields = ThrottleFields { max_burst, count_per_period, period, quantity };
        fields.check(dialect, &RequestLimits::NONE).map_err(|error| error.to_string())
    }

    #[test]
    fn the_dialects_differ_in_capacity_and_in_negative_quantities() {
        use ThrottleDialect::{RedisCell, Throttle};
        assert_eq!(throttle(Throttle, [5, 1, 1, 1]).unwrap().quota.burst(), 5);
        assert_eq!(throttle(RedisCell, [5, 1, 1, 1]).unwrap().quota.burst(), 6);
        let refund = throttle(RedisCell, [0, 1, 1, i64::MIN]).unwrap();
        assert_eq!((refund.is_refund, refund.cost), (true, Cost::new(1 << 63)));
        assert_eq!(throttle(Throttle, [5, 1, 1, -1]).unwrap_err(), "quantity: -1; must be at least 0");
        assert_eq!(throttle(RedisCell, [-1, 1, 1, 1]).unwrap_err(), "max_burst: -1; must be at least 0");
        assert_eq!(throttle(Throttle, [0, 1, 1, 1]).unwrap_err(), "max_burst: 0; must be at least 1");
        // The largest burst there is: 200 years at a billion a second.
        let largest = throttle(RedisCell, [6_307_199_999_999_999_999, 1_000_000_000, 1, 1]).unwrap();
        assert_eq!(largest.quota.burst(), 6_307_200_000_000_000_000);
        let beyond = throttle(RedisCell, [i64::MAX, 1_000_000_000, 1, 1]).unwrap_err();
        assert!(beyond.starts_with("max_burst: ") && beyond.contains("200 years"), "{beyond}");
    }

    #[test]
    fn limits_fill_in_what_is_left_out() {
        let limits =
            RequestLimits { burst: Some(10), rate: Some(100), period: Some(60), ..RequestLimits::default() };
        let checked = |fields: ThrottleFields| fields.check(ThrottleDialect::Throttle, &limits).unwrap();
        let nothing = checked(ThrottleFields::default());
        assert_eq!((nothing.quota, nothing.cost), (Quota::throttle(10, 100, 60).unwrap(), Cost::ONE));
        let burst = checked(ThrottleFields { max_burst: Some(7), ..ThrottleFields::default() });
        assert_eq!(burst.quota, Quota::throttle(7, 100, 60).unwrap());
        let missing = ThrottleFields::default().check(ThrottleDialect::Throttle, &RequestLimits::default());
        let missing = missing.unwrap_err();
        assert_eq!(missing.field(), Some(RequestField::MaxBurst));
        assert_eq!(missing.to_string(), "max_burst: missing, and no default_burst is configured");
    }

    #[test]
    fn plans_or_a_quota_and_never_both() {
        let limits = RequestLimits::default();
        let fields = PlanFields { key: b"k", plans: &["gold"], ..PlanFields::default() };
        let checked = |fields: PlanFields<'static>, verb| {
            fields.check(verb, &limits, Ok(Admin::for_test())).map_err(|error| error.to_string())
        };
        let unsaid = |charge: &RequestedCharge<'_>| charge.amounts == Amounts::UNSAID && !charge.tells_each;
        assert!(
            matches!(checked(fields, PlanVerb::Acquire), Ok(WireRequest::Acquire(charge)) if unsaid(&charge))
        );
        let minute = Nanos::from_secs(60);
        assert!(
            matches!(checked(fields, PlanVerb::Hold), Ok(WireRequest::Hold(_, lease)) if lease == minute)
        );
        let brief = PlanFields { lease: Some(Nanos::from_nanos(1)), ..fields };
        assert_eq!(checked(brief, PlanVerb::Hold).unwrap_err(), "lease_ms: 1ns; must be 1 ms to 24 h");
        let much = PlanFields { cost: Some(u64::MAX), ..fields };
        for verb in [PlanVerb::Debit, PlanVerb::Hold] {
            assert!(
                checked(much, verb)
                    .unwrap_err()
                    .starts_with("requests: 18446744073709551615; must be at most")
            );
        }
        assert!(checked(much, PlanVerb::Acquire).is_ok(), "as ever");
        let aged = PlanFields { charged_ago: Some(Nanos::from_secs(2)), ..fields };
        let ago = Charged::ago(Nanos::from_secs(2));
        assert!(matches!(checked(aged, PlanVerb::Refund), Ok(WireRequest::Refund(_, at, _)) if at == ago));
        let none = PlanFields { plans: &[], ..fields };
        assert!(checked(none, PlanVerb::Peek).unwrap_err().starts_with("plan: missing; "));
        assert!(matches!(checked(none, PlanVerb::Reset), Ok(WireRequest::Reset(_, RequestedLimits::All, _))));
        let both = PlanFields { quota: Some("1/s"), ..fields };
        assert_eq!(checked(both, PlanVerb::Peek).unwrap_err(), "quota: together with plans; say one of them");
        let own = PlanFields { quota: Some("1/s"), ..none };
        assert_eq!(
            checked(own, PlanVerb::Hold).unwrap_err(),
            "quota: to be held; a hold names plans, by which it is ended"
        );
        assert!(checked(own, PlanVerb::Debit).is_ok());
        let log = PlanFields { quota: Some("1/s log"), ..none };
        assert!(checked(log, PlanVerb::Acquire).unwrap_err().contains("--allow-log"));
        assert!(checked(log, PlanVerb::Reset).is_ok(), "what was admitted once can be forgotten");
        let nobody = PlanFields { key: b"", ..fields };
        assert_eq!(
            checked(nobody, PlanVerb::Acquire).unwrap_err(),
            "key: 0 bytes; a key has 1 to 1024 bytes"
        );
    }

    #[test]
    fn what_changes_what_a_key_has_used_is_the_administrators() {
        let fields = PlanFields { key: b"k", plans: &["gold"], ..PlanFields::default() };
        let refused = |verb| fields.check(verb, &RequestLimits::NONE, Err(NotAdmin::Forbidden)).map(drop);
        for verb in [PlanVerb::Acquire, PlanVerb::Peek, PlanVerb::Hold] {
            assert!(refused(verb).is_ok(), "{verb:?}");
        }
        for (verb, name) in
            [(PlanVerb::Refund, "refund"), (PlanVerb::Debit, "debit"), (PlanVerb::Reset, "reset")]
        {
            let said = refused(verb).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{name}: needs the admin token")), "{said}");
        }
        let key = Key::new("k").unwrap();
        let cell = |quantity| {
            let fields =
                ThrottleFields { max_burst: Some(1), count_per_period: Some(1), period: Some(1), quantity };
            let throttle = fields.check(ThrottleDialect::RedisCell, &RequestLimits::NONE).unwrap();
            throttle.request(key, Err(NotAdmin::Remote)).is_ok()
        };
        assert!(cell(Some(1)) && !cell(Some(-1)), "a negative quantity gives back");
    }

    #[test]
    fn all_keys_are_never_forgotten_by_mistake() {
        let admin = Admin::for_test();
        let checked = |prefix: Option<&'static [u8]>, all| match (ForgetFields { prefix, all }).check(admin) {
            Ok(WireRequest::Forget(prefix, _)) => Ok(prefix),
            other => Err(other.unwrap_err().field()),
        };
        assert_eq!(checked(Some(b"j"), false), Ok(&b"j"[..]));
        assert_eq!(checked(None, true), Ok(&b""[..]));
        for (prefix, all) in [(None, false), (Some(&b""[..]), false), (Some(b"j"), true), (Some(b""), true)] {
            assert_eq!(checked(prefix, all), Err(Some(RequestField::Prefix)));
        }
    }
}
