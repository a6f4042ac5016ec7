//! Holds: what is taken for a while, by an estimate, and ended by the truth.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::plans::Plans;
use super::request::Request;
use super::standing::Standing;
use crate::{Amounts, Decision, Key, Nanos, Plan, Rule, Rules};

/// A question to a store: may `key` hold so much under all of these plans, until it is ended or the lease runs out?
#[derive(Clone, Copy, Debug)]
pub struct HoldRequest<'a> {
    /// The key that it is held for.
    pub key: Key<'a>,
    /// The plans that it is held to.
    pub plans: &'a [Arc<Plan>],
    /// The estimate.
    pub amounts: Amounts<'a>,
    /// By what it is ended: chosen by who asks, at random.
    pub id: HoldId,
    /// How long it lasts if nobody ends it.
    pub lease: Nanos,
}

impl<'a> HoldRequest<'a> {
    /// The shortest lease.
    pub const LEAST_LEASE: Nanos = Nanos::from_millis(1);
    /// The longest lease: 24 hours.
    pub const LONGEST_LEASE: Nanos = Nanos::from_secs(24 * 60 * 60);
    /// The lease of a hold that is given none.
    pub const DEFAULT_LEASE: Nanos = Nanos::from_secs(60);
    /// How long after the lease the end of a hold is remembered, so that ending it again is harmless.
    pub const REMEMBERED: Nanos = Nanos::from_secs(60);
    /// The most live holds of one key.
    pub const MOST_OF_A_KEY: usize = 65_536;

    /// Refuses a lease that is too short or too long.
    ///
    /// # Errors
    ///
    /// If it is less than [a millisecond](HoldRequest::LEAST_LEASE), or more than [24 hours](HoldRequest::LONGEST_LEASE).
    pub fn check_lease(lease: Nanos) -> Result<(), LeaseError> {
        match (Self::LEAST_LEASE..=Self::LONGEST_LEASE).contains(&lease) {
            true => Ok(()),
            false => Err(LeaseError { lease }),
        }
    }

    /// Returns the estimate as a request to take.
    pub fn request(&self) -> Request<'a> {
        Request::of(self.key, Rules::Plans(self.plans), self.amounts)
    }
}

/// How a hold is to be ended, or prolonged.
#[derive(Clone, Copy, Debug)]
pub struct HoldChange<'a> {
    /// The key that it is held for.
    pub key: Key<'a>,
    /// Which of its holds.
    pub id: HoldId,
    /// What is to become of it.
    pub action: HoldAction<'a>,
    /// The plans by name, for a store that finds a hold which another process has made.
    pub plans: &'a dyn Plans,
}

/// What is to become of a hold.
#[derive(Clone, Copy, Debug)]
pub enum HoldAction<'a> {
    /// It ends, and so much was spent: the difference to the estimate is given back or debited. What is not said stays as
    /// it was estimated.
    Settle(Amounts<'a>),
    /// It ends, and nothing was spent: all is given back.
    Cancel,
    /// It lasts so long from now.
    Extend(Nanos),
}

/// What has become of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldOutcome {
    /// What it is now.
    pub state: HoldState,
    /// Where the key stands under the plans of the hold; none if it is gone. The decision is that on one more of every
    /// unit. Ended again, a hold answers with the decision of the first time.
    pub standing: Option<Standing>,
    /// The plans that it was held to, whose rules the standing tells of, in their order; none if it is gone.
    pub plans: Vec<Arc<Plan>>,
}

impl HoldOutcome {
    /// The answer about a hold that has ended, or never was.
    pub const GONE: HoldOutcome = HoldOutcome { state: HoldState::Gone, standing: None, plans: Vec::new() };

    /// Returns what each rule says by itself, in their order, those in shadow, too.
    pub fn each(&self) -> impl Iterator<Item = (&Plan, &Rule, &Decision)> {
        let rules = self.plans.iter().flat_map(|plan| plan.rules().iter().map(move |rule| (&**plan, rule)));
        let each = self.standing.iter().flat_map(|standing| &standing.each);
        rules.zip(each).map(|((plan, rule), decision)| (plan, rule, decision))
    }
}

/// What a hold is after it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// It was settled, now or before.
    Settled,
    /// It was cancelled, now or before.
    Cancelled,
    /// It is live, with a new lease.
    Extended,
    /// There is no such hold of this key: its lease has run out, or it never was, or it ended so long ago that nobody
    /// remembers; or it was to be prolonged after it had ended. Nothing has changed.
    Gone,
}

impl HoldState {
    /// Returns the state as wires spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldState::Settled => "settled",
            HoldState::Cancelled => "cancelled",
            HoldState::Extended => "extended",
            HoldState::Gone => "gone",
        }
    }
}

/// The error of a lease that is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseError {
    lease: Nanos,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lease: {:?}; must be 1 ms to 24 h", self.lease.as_duration())
    }
}

impl std::error::Error for LeaseError {}

/// What a hold is ended by: 128 random bits, written as 32 hexadecimal digits.
///
/// ```
/// use ratekeeper::port::HoldId;
/// let id: HoldId = "00000000000000000123456789abcdef".parse()?;
/// assert_eq!(id, HoldId::from_bits(0x0123_4567_89ab_cdef));
/// assert_eq!(id.to_string(), "00000000000000000123456789abcdef");
/// # Ok::<(), ratekeeper::port::HoldIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(u128);

impl HoldId {
    /// Returns the identifier of these bits.
    pub const fn from_bits(bits: u128) -> Self {
        HoldId(bits)
    }

    /// Returns the bits.
    pub const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HoldId({self})")
    }
}

impl FromStr for HoldId {
    type Err = HoldIdError;

    fn from_str(text: &str) -> Result<Self, HoldIdError> {
        // A sign would pass for a digit.
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(HoldId).ok_or(HoldIdError)
    }
}

/// The error of a text that cannot be a [`HoldId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldIdError;

impl fmt::Display for HoldIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("id: malformed; the id of a hold is 32 hexadecimal digits, as HOLD has answered it")
    }
}

impl std::error::Error for HoldIdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_32_hexadecimal_digits() {
        let id = HoldId::from_bits(u128::MAX - 1);
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "12", "+0000000000000000000000000000001", "g0000000000000000000000000000000"] {
            assert_eq!(wrong.parse::<HoldId>(), Err(HoldIdError), "{wrong}");
        }
    }
}
