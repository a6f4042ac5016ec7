//! The value of `--redis-breaker`.

use std::fmt;
use std::str::FromStr;

use ratekeeper_server::config::BreakerSection;

/// What `--redis-breaker` says: `on`, `off`, or parts such as `failures=5,percent=50,least=20,window=10s,rest=1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakerFlag(pub(super) BreakerSection);

impl FromStr for BreakerFlag {
    type Err = BreakerFlagError;

    fn from_str(text: &str) -> Result<Self, BreakerFlagError> {
        let mut section = BreakerSection { enabled: Some(text != "off"), ..BreakerSection::default() };
        if matches!(text, "on" | "off") {
            return Ok(BreakerFlag(section));
        }
        for part in text.split(',') {
            let wrong = || BreakerFlagError(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            match name {
                "failures" => section.failures = Some(value.parse().map_err(|_| wrong())?),
                "percent" => section.percent = Some(value.parse().map_err(|_| wrong())?),
                "least" => section.least = Some(value.parse().map_err(|_| wrong())?),
                "window" => section.window = Some(value.parse().map_err(|_| wrong())?),
                "rest" => section.rest = Some(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(BreakerFlag(section))
    }
}

/// A part that is not one of the breaker's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BreakerFlagError(String);

impl fmt::Display for BreakerFlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a setting of the breaker; write `on`, `off`, or parts of `failures=5,percent=50,least=20,window=10s,rest=1s`",
            self.0
        )
    }
}

impl std::error::Error for BreakerFlagError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_off_or_parts() {
        let parse = |text: &str| text.parse::<BreakerFlag>().unwrap().0;
        assert_eq!((parse("on").enabled, parse("off").enabled), (Some(true), Some(false)));
        let some = parse("failures=3,rest=500ms");
        assert_eq!((some.enabled, some.failures.map(|n| n.get())), (Some(true), Some(3)));
        assert_eq!(some.rest, Some("500ms".parse().unwrap()));
        for wrong in ["", "yes", "failures", "failures=0", "rest=5", "percent=x", "failures=1,,rest=1s"] {
            assert!(wrong.parse::<BreakerFlag>().is_err(), "{wrong}");
        }
    }
}
