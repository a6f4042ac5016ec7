//! A state for people.

use std::fmt;

use super::debt::Debt;
use super::fields::{StateField, Strategy, fields};
use super::next::NextDecision;
use super::state::InspectedState;
use crate::when::{Ago, HumanSpan, Rfc3339};

impl fmt::Display for InspectedState {
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
                    StateField::Amount(name, amount) => writeln!(f, "  {name:<9}{amount}")?,
                    StateField::Count(name, count) => writeln!(f, "  {name:<9}{count}")?,
                    StateField::Name(name) => writeln!(f, "  {:<9}{name}", "rule")?,
                    StateField::Instant(name, at, meaning) => {
                        let ago = Ago { then: at, now: self.now };
                        writeln!(f, "  {name:<9}{}  ({meaning} {ago})", Rfc3339(at))?;
                    }
                }
            }
        }
        match self.expires_in {
            Some(Some(left)) => {
                let left = HumanSpan(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
                writeln!(f, "{} encoding, expires in {left}", self.encoding_word())?;
            }
            Some(None) => writeln!(f, "{} encoding, never expires", self.encoding_word())?,
            None => {}
        }
        match &self.next {
            Some(next) => {
                for (rule, Debt { owed, until }) in &next.debts {
                    let until = (Rfc3339(*until), Ago { then: *until, now: self.now });
                    writeln!(f, "rule `{rule}` is in debt: {owed} owed, until {} ({})", until.0, until.1)?;
                }
                writeln!(f, "{next}")
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for NextDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = &self.decision;
        let left = format_args!("{} of {} left by rule `{}`", decision.remaining, decision.limit, self.rule);
        let full = match decision.reset_after.as_nanos() {
            0 => "full".to_owned(),
            nanos => format!("full again in {}", HumanSpan(nanos)),
        };
        match (decision.allowed, decision.retry_after) {
            (true, _) => write!(f, "the next request would be allowed: {left}, {full}"),
            (false, Some(wait)) => {
                let wait = HumanSpan(wait.as_nanos());
                write!(f, "the next request would be denied, and allowed in {wait}: {left}, {full}")
            }
            (false, None) => write!(f, "the next request would be denied, whenever it comes: {left}"),
        }
    }
}
