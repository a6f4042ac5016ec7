//! `THROTTLE` and `CL.THROTTLE`: a quota in three integers, an answer in five.

use ratekeeper::{Cost, Decision, Key, Quota};

use super::number::integer;
use super::reply::escaped;
use crate::limits::{Limits, QuotaRefusal, RefusalCode};
use crate::stream::Dialect;

/// What one command asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) quota: Quota,
    pub(super) amount: Amount,
}

/// To take, or to give back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Take(Cost),
    Refund(Cost),
}

impl Dialect {
    /// The command's name, as its errors spell it.
    fn name(self) -> &'static str {
        match self {
            Dialect::Throttle | Dialect::Packed => "throttle",
            Dialect::Cell => "cl.throttle",
        }
    }

    /// Reads the arguments after the command's name. An error is the text after `ERR `.
    #[inline]
    pub(super) fn parse<'a>(self, args: &[&'a [u8]], limits: &Limits) -> Result<(Key<'a>, Ask), String> {
        let (key, numbers) = match args {
            [key, numbers @ ..] if numbers.len() <= 4 => (*key, numbers),
            _ => return Err(self.wrong_number()),
        };
        limits.admits_quotas().map_err(|refusal| refused(&refusal))?;
        let key = Key::new(key).map_err(|error| format!("invalid {error}"))?;
        let number = |index: usize, name: &'static str, default: Option<i64>, setting: &'static str| match (
            numbers.get(index),
            default,
        ) {
            (Some(text), _) => integer(text).ok_or_else(|| not_an_integer(name, text)),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(self.missing(name, setting)),
        };
        let max_burst = number(0, "max_burst", limits.burst, "default_burst")?;
        let count = number(1, "count_per_period", limits.rate, "default_rate")?;
        let period = number(2, "period", limits.period, "default_period")?;
        let quantity = number(3, "quantity", Some(1), "")?;
        let quota = self.quota(max_burst, count, period, limits)?;
        let amount = match u64::try_from(quantity) {
            Ok(cost) => Amount::Take(Cost::new(cost)),
            Err(_) if self == Dialect::Cell => Amount::Refund(Cost::new(quantity.unsigned_abs())),
            Err(_) => return Err(format!("invalid quantity: {quantity}; must be at least 0")),
        };
        Ok((key, Ask { quota, amount }))
    }

    /// Why a command of so many arguments after its name cannot be meant, whatever they are.
    pub(super) fn arity_error(self, args: usize, limits: &Limits) -> Option<String> {
        if !(1..=5).contains(&args) {
            return Some(self.wrong_number());
        }
        let numbers = [
            ("max_burst", limits.burst, "default_burst"),
            ("count_per_period", limits.rate, "default_rate"),
            ("period", limits.period, "default_period"),
        ];
        let absent = |(name, default, setting): &(&str, Option<i64>, &str)| {
            default.is_none().then(|| self.missing(name, setting))
        };
        numbers.iter().skip(args - 1).find_map(absent)
    }

    #[cold]
    fn wrong_number(self) -> String {
        format!("wrong number of arguments for '{}' command", self.name())
    }

    #[cold]
    fn missing(self, name: &str, setting: &str) -> String {
        format!("{}: no {name}, and no {setting} is configured", self.wrong_number())
    }

    #[inline]
    fn quota(self, max_burst: i64, count: i64, period: i64, limits: &Limits) -> Result<Quota, String> {
        let capacity = match self {
            Dialect::Throttle | Dialect::Packed => max_burst,
            Dialect::Cell if max_burst < 0 => {
                return Err(format!("invalid max_burst: {max_burst}; must be at least 0"));
            }
            Dialect::Cell => max_burst.saturating_add(1),
        };
        limits.throttle(capacity, count, period).map_err(|refusal| refused(&refusal))
    }

    /// The five integers of the answer.
    #[inline]
    pub(super) fn answer(self, decision: &Decision) -> [i64; 5] {
        let (limit, remaining) = (saturated(decision.limit), saturated(decision.remaining));
        let reset = saturated(decision.reset_after.ceil_secs());
        let retry = match decision.retry_after {
            // A wait that a wire of whole seconds cannot tell from never does not exist: it is 200 years at most.
            Some(wait) => saturated(wait.ceil_secs()),
            None => -1,
        };
        match self {
            Dialect::Throttle | Dialect::Packed => [decision.allowed.into(), limit, remaining, reset, retry],
            Dialect::Cell => {
                let retry = if decision.allowed { -1 } else { retry };
                [(!decision.allowed).into(), limit, remaining, retry, reset]
            }
        }
    }
}

#[cold]
fn refused(refusal: &QuotaRefusal) -> String {
    match refusal.code() {
        RefusalCode::PlansOnly => refusal.to_string(),
        _ => format!("invalid {refusal}"),
    }
}

#[cold]
fn not_an_integer(name: &str, text: &[u8]) -> String {
    format!("invalid {name}: '{}'; must be an integer of 64 bits", escaped(text))
}

#[inline]
fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use ratekeeper::Nanos;

    use super::*;

    fn parse(dialect: Dialect, line: &str) -> Result<Ask, String> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        dialect.parse(&args, &Limits::NONE).map(|(_, ask)| ask)
    }

    fn error(dialect: Dialect, line: &str) -> String {
        parse(dialect, line).unwrap_err()
    }

    #[test]
    fn errors_name_the_argument_and_what_would_be_right() {
        use Dialect::{Cell, Throttle};
        for (dialect, line, expected) in [
            (Throttle, "k 1 1 1 1 1", "wrong number of arguments for 'throttle' command"),
            (
                Throttle,
                "k",
                "wrong number of arguments for 'throttle' command: no max_burst, and no default_burst is configured",
            ),
            (Throttle, "k 0 1 1", "invalid max_burst: 0; must be at least 1"),
            (Throttle, "k a 1 1", "invalid max_burst: 'a'; must be an integer of 64 bits"),
            (Throttle, "k 1 -5 1", "invalid count_per_period: -5; must be at least 1"),
            (Throttle, "k 1 1 0", "invalid period: 0; must be at least 1"),
            (Throttle, "k 1 1 1 -1", "invalid quantity: -1; must be at least 0"),
            (Throttle, " 1 1 1", "invalid key: 0 bytes; a key has 1 to 1024 bytes"),
            (Cell, "k -1 1 1", "invalid max_burst: -1; must be at least 0"),
            (
                Cell,
                "k 1 1 9223372036854775808",
                "invalid period: '9223372036854775808'; must be an integer of 64 bits",
            ),
        ] {
            assert_eq!(error(dialect, line), expected, "{line}");
        }
    }

    #[test]
    fn extremes_saturate() {
        // The largest burst there is: 200 years at a billion a second.
        let ask = parse(Dialect::Cell, "k 6307199999999999999 1000000000 1 -9223372036854775808").unwrap();
        assert_eq!(ask.quota.burst(), 6_307_200_000_000_000_000);
        let beyond = error(Dialect::Cell, "k 9223372036854775807 1000000000 1");
        assert!(beyond.starts_with("invalid max_burst: ") && beyond.contains("200 years"), "{beyond}");
        assert_eq!(ask.amount, Amount::Refund(Cost::new(1 << 63)));
        let huge = Decision::allow(u64::MAX, u64::MAX, Nanos::MAX);
        assert_eq!(Dialect::Throttle.answer(&huge), [1, i64::MAX, i64::MAX, 18_446_744_074, 0]);
    }

    #[test]
    fn the_dialects_order_their_answers_differently() {
        let denied = Decision::deny(5, 0, Some(Nanos::from_millis(571)), Nanos::from_secs(30));
        assert_eq!(Dialect::Throttle.answer(&denied), [0, 5, 0, 30, 1]);
        assert_eq!(Dialect::Cell.answer(&denied), [1, 5, 0, 1, 30]);
        let never = Decision::deny(5, 5, None, Nanos::ZERO);
        assert_eq!(Dialect::Throttle.answer(&never), [0, 5, 5, 0, -1]);
        assert_eq!(Dialect::Cell.answer(&never), [1, 5, 5, -1, 0]);
        let allowed = Decision::allow(16, 15, Nanos::from_secs(2));
        assert_eq!(Dialect::Cell.answer(&allowed), [0, 16, 15, -1, 2]);
    }

    #[test]
    fn limits_fill_in_what_is_left_out() {
        let limits = Limits { burst: Some(10), rate: Some(100), period: Some(60), ..Limits::default() };
        let (_, ask) = Dialect::Throttle.parse(&[b"k"], &limits).unwrap();
        assert_eq!(ask.quota, Quota::throttle(10, 100, 60).unwrap());
        let (_, ask) = Dialect::Throttle.parse(&[b"k", b"7"], &limits).unwrap();
        assert_eq!(ask.quota, Quota::throttle(7, 100, 60).unwrap());
    }
}
