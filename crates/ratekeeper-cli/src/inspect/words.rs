//! A state in words.

use std::fmt;

use super::{Field, Next, State, Strategy, fields};
use crate::when::{Ago, Rfc3339, Span};

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, rules) = (self.record.parts(), self.record.names());
        if !rules.is_empty() {
            writeln!(f, "{}, version 1, of {} rules", self.strategy().words, rules.len())?;
        } else if parts.len() > 1 {
            writeln!(f, "composite, version 1, of {} parts: all must allow", parts.len())?;
        }
        for (index, part) in parts.iter().enumerate() {
            if let Some(rule) = rules.get(index) {
                write!(f, "{rule}: ")?;
            }
            writeln!(f, "{}, version {}", Strategy::of(part).words, self.version(part))?;
            for field in fields(part) {
                match field {
                    Field::Amount(name, amount) => writeln!(f, "  {name:<9}{amount}")?,
                    Field::Count(name, count) => writeln!(f, "  {name:<9}{count}")?,
                    Field::Name(name) => writeln!(f, "  {:<9}{name}", "rule")?,
                    Field::Instant(name, at, meaning) => {
                        let ago = Ago { then: at, now: self.now };
                        writeln!(f, "  {name:<9}{}  ({meaning} {ago})", Rfc3339(at))?;
                    }
                }
            }
        }
        match self.expires_in {
            Some(Some(left)) => {
                let left = Span(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
                writeln!(f, "{} encoding, expires in {left}", self.encoding.word())?;
            }
            Some(None) => writeln!(f, "{} encoding, never expires", self.encoding.word())?,
            None => {}
        }
        match &self.next {
            Some(next) => writeln!(f, "{next}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = &self.decision;
        let left = format_args!("{} of {} left by rule `{}`", decision.remaining, decision.limit, self.rule);
        let whole = match decision.reset_after.as_nanos() {
            0 => "whole".to_owned(),
            nanos => format!("whole again in {}", Span(nanos)),
        };
        match (decision.allowed, decision.retry_after) {
            (true, _) => write!(f, "the next request would be allowed: {left}, {whole}"),
            (false, Some(wait)) => {
                let wait = Span(wait.as_nanos());
                write!(f, "the next request would be denied, and pass in {wait}: {left}, {whole}")
            }
            (false, None) => write!(f, "the next request would be denied for ever: {left}"),
        }
    }
}
