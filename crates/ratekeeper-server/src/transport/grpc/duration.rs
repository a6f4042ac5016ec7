//! Durations as the wire has them.

use prost_types::Duration;
use ratekeeper::Nanos;

use super::status::GrpcStatus;

/// Returns the duration of a field of this name. One of the wire may be negative, or not a duration at all.
pub(super) fn from_wire(field: &str, Duration { seconds, nanos }: Duration) -> Result<Nanos, GrpcStatus> {
    let (secs, subsec) = (u64::try_from(seconds), u64::try_from(nanos));
    match (secs, subsec) {
        (Ok(secs), Ok(subsec @ 0..=999_999_999)) => {
            Ok(Nanos::from_secs(secs).saturating_add(Nanos::from_nanos(subsec)))
        }
        _ => {
            let problem = format!("{field}: {seconds} s and {nanos} ns; must be a duration of at least 0");
            Err(GrpcStatus::invalid(problem))
        }
    }
}

/// Returns the exact duration: nanoseconds in 64 bits are far from the largest that the wire has.
pub(super) fn to_wire(nanos: Nanos) -> Duration {
    let exact = nanos.as_duration();
    Duration {
        seconds: i64::try_from(exact.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(exact.subsec_nanos()).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_not_negative() {
        let read = |seconds, nanos| from_wire("charged_ago", Duration { seconds, nanos }).ok();
        assert_eq!(read(0, 0), Some(Nanos::ZERO));
        assert_eq!(read(1, 5), Some(Nanos::from_nanos(1_000_000_005)));
        assert_eq!(read(i64::MAX, 999_999_999), Some(Nanos::MAX));
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1_000_000_000), (i64::MIN, i32::MIN)] {
            assert_eq!(read(seconds, nanos), None, "{seconds} s and {nanos} ns");
        }
    }
}
