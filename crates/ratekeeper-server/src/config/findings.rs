//! Every mistake of a file, not only the first: for tools that check files.
//!
//! A file is understood as a whole or not at all, and the first mistake ends that. So the part that is wrong is taken
//! out, and the rest is tried again, until nothing is wrong.

use std::ops::Range;
use std::path::Path;

use ratekeeper::Plan;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::document::Config;
use super::error::ConfigError;
use super::file::ConfigFile;

/// What a file says, and what is wrong with it.
#[derive(Debug)]
pub struct Findings {
    /// What is left when everything that is wrong is taken out.
    pub config: Config,
    /// The plans in which nothing is wrong.
    pub plans: Vec<Plan>,
    /// What is wrong, in the order of lines.
    pub errors: Vec<ConfigError>,
}

/// How many mistakes of one file are reported. Each costs one more reading of what is left.
const MOST: usize = 100;

impl Config {
    /// Reads a file, and goes on after mistakes.
    ///
    /// # Errors
    ///
    /// The file cannot be read at all.
    pub fn examine(path: &Path) -> Result<Findings, ConfigError> {
        Ok(Self::examine_text(path, Self::read_text(path)?))
    }

    /// Understands what a file contains, and goes on after mistakes. The path is only named in messages.
    pub fn examine_text(path: &Path, text: String) -> Findings {
        let (table, syntax) = DeTable::parse_recoverable(&text);
        let tell = |error: &toml::de::Error| ConfigError::of_toml(path, &text, error);
        let mut errors: Vec<ConfigError> = syntax.iter().map(tell).collect();
        let mut file = ConfigFile::default();
        // After a mistake of syntax the rest means something else than what was written.
        if errors.is_empty() {
            let mut table = table;
            while errors.len() < MOST {
                match ConfigFile::deserialize(Deserializer::from(table.clone())) {
                    Ok(understood) => {
                        file = understood;
                        break;
                    }
                    Err(error) => {
                        errors.push(tell(&error));
                        let Some(span) = error.span() else { break };
                        if !take_out(table.get_mut(), &span) {
                            break;
                        }
                    }
                }
            }
        }
        let config = Config::of(path, text.clone(), file);
        let mut plans = Vec::new();
        for (name, section) in &config.file.plans {
            match config.plan(name, section) {
                Ok(plan) => plans.push(plan),
                Err(mistakes) => errors.extend(mistakes),
            }
        }
        errors.sort_by_key(|error| error.line());
        errors.truncate(MOST);
        Findings { config, plans, errors }
    }
}

/// Takes out the smallest entry that the span lies in. False if there is none, so that nobody tries for ever.
fn take_out(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let holds = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
    let found = table.iter_mut().find_map(|(key, value)| {
        if holds(&key.span()) {
            return Some((key.clone(), false));
        }
        let within = holds(&value.span()) || is_within_table(value, span);
        within.then(|| {
            let deeper = match value.get_mut() {
                DeValue::Table(inner) => take_out(inner, span),
                _ => false,
            };
            (key.clone(), deeper)
        })
    });
    match found {
        Some((_, true)) => true,
        Some((key, false)) => table.remove(&key).is_some(),
        None => false,
    }
}

/// A table's own span may be no more than its header, while what it holds follows.
fn is_within_table(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> bool {
    let DeValue::Table(table) = value.get_ref() else { return false };
    let holds = |range: Range<usize>| range.start <= span.start && span.end <= range.end;
    table.iter().any(|(key, value)| holds(key.span()) || holds(value.span()) || is_within_table(value, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examine(text: &str) -> Findings {
        Config::examine_text(Path::new("a.toml"), text.to_owned())
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let text = "\
[server]
log_levle = \"info\"
loops = \"two\"
[transport.resp]
port = 1
[transports.resp]
port = 70000
max_connections = 0
[plans.gold]
limits = [\"10/s\", \"1000/dya\", \"0/s\"]
[plans.lead]
on_store_error = \"opne\"
[plans.\"go ld\"]
limits = [\"1/s\"]
[plans.fine]
limits = [\"1/s\", \"5/m\"]
[plans.llm]
limits = [\"5 GB/day\", \"5 tokens/m\"]
shadow = [
  \"2 tokens/dya\",
  \"8 concurrent/s\",
]
assume = { tokens = -1 }
[plans.assumed]
limits = [\"5 tokens/m\"]
mode = \"shadwo\"
on_lapse = \"forget\"
[plans.assumed.assume]
bytes = 1
concurrent = 2
[store]
lease = \"5%%\"
leased_keys = -1
[plans.leased]
lease = \"0%\"
limits = [\"1000/s\"]
[plans.long]
lease = \"5s\"
limits = [\"1000/s\"]
";
        let findings = examine(text);
        let lines: Vec<_> = findings.errors.iter().map(|error| error.line().unwrap()).collect();
        let expected = [2, 3, 4, 7, 8, 10, 10, 11, 12, 13, 18, 20, 21, 23, 26, 27, 29, 30, 32, 33, 35, 38];
        assert_eq!(lines, expected, "{:#?}", findings.errors);
        let plans: Vec<_> = findings.plans.iter().map(|plan| plan.name().as_str()).collect();
        assert_eq!(plans, ["fine", "leased"], "what is left when a mistake is taken out");
    }

    #[test]
    fn mistakes_of_syntax_end_it() {
        let findings = examine("[server\nloops = 1\n");
        assert!(!findings.errors.is_empty() && findings.plans.is_empty());
        assert_eq!(findings.errors[0].line(), Some(1));
    }
}
