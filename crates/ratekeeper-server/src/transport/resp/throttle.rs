//! `THROTTLE` and `CL.THROTTLE`: a quota in three integers, an answer in five.

use ratekeeper::{Decision, Key};

use super::error_text::error_text;
use super::number::integer;
use super::reply::escaped;
use crate::request::{RequestError, RequestField, RequestLimits, Throttle, ThrottleDialect, ThrottleFields};

/// The fields that may follow the key, in their order.
const NUMBERS: [RequestField; 4] =
    [RequestField::MaxBurst, RequestField::CountPerPeriod, RequestField::Period, RequestField::Quantity];

/// Returns the name of the command, as its errors spell it.
pub(super) fn command_name(dialect: ThrottleDialect) -> &'static str {
    match dialect {
        ThrottleDialect::Throttle => "throttle",
        ThrottleDialect::RedisCell => "cl.throttle",
    }
}

/// Reads the arguments after the command's name. Allocates nothing unless something is wrong; an error is the text of
/// the reply.
#[inline]
pub(super) fn read(
    dialect: ThrottleDialect,
    args: &[&[u8]],
    limits: &RequestLimits,
) -> Result<Throttle, String> {
    match args {
        [key, numbers @ ..] if numbers.len() <= NUMBERS.len() => fields(key, numbers, limits)
            .and_then(|fields| fields.check(dialect, limits))
            .map_err(|error| error_text(command_name(dialect), &error)),
        _ => Err(wrong_arity(dialect)),
    }
}

#[inline]
fn fields(key: &[u8], numbers: &[&[u8]], limits: &RequestLimits) -> Result<ThrottleFields, RequestError> {
    limits.admits_quotas()?;
    Key::new(key)?;
    let number = |index: usize| match numbers.get(index) {
        Some(text) => integer(text).map(Some).ok_or_else(|| not_an_integer(NUMBERS[index], text)),
        None => Ok(None),
    };
    Ok(ThrottleFields {
        max_burst: number(0)?,
        count_per_period: number(1)?,
        period: number(2)?,
        quantity: number(3)?,
    })
}

/// Returns why a command of `args` arguments after its name cannot be meant, whatever they are.
pub(super) fn arity_error(dialect: ThrottleDialect, args: usize, limits: &RequestLimits) -> Option<String> {
    if !(1..=1 + NUMBERS.len()).contains(&args) {
        return Some(wrong_arity(dialect));
    }
    let missing = NUMBERS[args - 1..].iter().find(|field| limits.default_of(**field).is_none())?;
    Some(error_text(command_name(dialect), &RequestError::Missing(*missing)))
}

#[cold]
fn wrong_arity(dialect: ThrottleDialect) -> String {
    format!("ERR wrong number of arguments for '{}' command", command_name(dialect))
}

#[cold]
fn not_an_integer(field: RequestField, text: &[u8]) -> RequestError {
    RequestError::Invalid(field, format!("'{}'; must be an integer of 64 bits", escaped(text)))
}

/// Returns the five integers of the answer.
#[inline]
pub(super) fn answer(dialect: ThrottleDialect, decision: &Decision) -> [i64; 5] {
    let (limit, remaining) = (saturated(decision.limit), saturated(decision.remaining));
    let reset = saturated(decision.reset_after.ceil_secs());
    // No wait is so long that it would be taken for never: 200 years at most.
    let retry = decision.retry_after.map_or(-1, |wait| saturated(wait.ceil_secs()));
    match dialect {
        ThrottleDialect::Throttle => [decision.allowed.into(), limit, remaining, reset, retry],
        ThrottleDialect::RedisCell => {
            let retry = if decision.allowed { -1 } else { retry };
            [(!decision.allowed).into(), limit, remaining, retry, reset]
        }
    }
}

/// Returns a number of the engine as the wire can write it.
#[inline]
pub(super) fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use ratekeeper::Nanos;

    use super::ThrottleDialect::{RedisCell, Throttle};
    use super::*;

    fn error(dialect: ThrottleDialect, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        read(dialect, &args, &RequestLimits::NONE).unwrap_err()
    }

    #[test]
    fn errors_name_the_argument_and_what_would_be_right() {
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
            (RedisCell, "k -1 1 1", "invalid max_burst: -1; must be at least 0"),
            (
                RedisCell,
                "k 1 1 9223372036854775808",
                "invalid period: '9223372036854775808'; must be an integer of 64 bits",
            ),
        ] {
            assert_eq!(error(dialect, line), format!("ERR {expected}"), "{line}");
        }
    }

    #[test]
    fn what_is_missing_is_known_before_it_is_read() {
        let limits = RequestLimits { burst: Some(1), rate: Some(1), ..RequestLimits::default() };
        let expected = "ERR wrong number of arguments for 'throttle' command: no period, and no default_period is configured";
        assert_eq!(arity_error(Throttle, 1, &limits).as_deref(), Some(expected));
        assert_eq!(arity_error(Throttle, 4, &limits), None);
        assert_eq!(arity_error(Throttle, 5, &RequestLimits::NONE), None);
        assert!(arity_error(RedisCell, 0, &limits).unwrap().contains("'cl.throttle'"));
        assert!(arity_error(RedisCell, 6, &limits).is_some());
    }

    #[test]
    fn the_dialects_order_their_answers_differently() {
        let denied = Decision::deny(5, 0, Some(Nanos::from_millis(571)), Nanos::from_secs(30));
        assert_eq!(answer(Throttle, &denied), [0, 5, 0, 30, 1]);
        assert_eq!(answer(RedisCell, &denied), [1, 5, 0, 1, 30]);
        let never = Decision::deny(5, 5, None, Nanos::ZERO);
        assert_eq!(answer(Throttle, &never), [0, 5, 5, 0, -1]);
        assert_eq!(answer(RedisCell, &never), [1, 5, 5, -1, 0]);
        let allowed = Decision::allow(16, 15, Nanos::from_secs(2));
        assert_eq!(answer(RedisCell, &allowed), [0, 16, 15, -1, 2]);
        let huge = Decision::allow(u64::MAX, u64::MAX, Nanos::MAX);
        assert_eq!(answer(Throttle, &huge), [1, i64::MAX, i64::MAX, 18_446_744_074, 0]);
    }
}
