//! `ratekeeper check --rls`: the limits that Envoy asks for, and what a descriptor finds.

use std::fmt::Write;
use std::str::FromStr;

use ratekeeper::Plan;
use ratekeeper_server::rls::{
    Explanation, RateLimitConfig, RlsEntry, RlsFinding, RlsSettings, parse_sources, read_sources,
};
use serde_json::{Value, json};

use super::output::counted;

/// A descriptor that is asked for: `edge user=bob,path=/x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AskedDescriptor {
    domain: String,
    entries: Vec<RlsEntry>,
}

impl FromStr for AskedDescriptor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (domain, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        if domain.is_empty() {
            return Err("write a domain and entries: 'edge user=bob,path=/x'".to_owned());
        }
        let entry = |part: String| match part.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(RlsEntry { key: key.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{part}` is no entry; write `key=value`, and `\\,` for a comma in a value")),
        };
        let entries = match rest.trim() {
            "" => Vec::new(),
            rest => split(rest).into_iter().map(entry).collect::<Result<_, _>>()?,
        };
        Ok(AskedDescriptor { domain: domain.to_owned(), entries })
    }
}

/// Splits at commas that no backslash stands before.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_escape = letter == '\\' && letters.peek().is_some_and(|next| matches!(next, ',' | '\\'));
        match (letter, parts.last_mut()) {
            (',', _) => parts.push(String::new()),
            (_, Some(part)) => part.extend(if is_escape { letters.next() } else { Some(letter) }),
            (_, None) => {}
        }
    }
    parts
}

/// What was found in files of limits.
#[derive(Debug)]
pub(super) struct RlsCheck {
    files: usize,
    config: Option<RateLimitConfig>,
    mistakes: Vec<RlsFinding>,
    warnings: Vec<RlsFinding>,
    explanations: Vec<Explanation>,
}

impl RlsCheck {
    /// Reads files and folders as a server would. `plans` are those that rules may name; none if they are not known.
    pub(super) fn new(settings: &RlsSettings, plans: Option<&[Plan]>, asked: &[AskedDescriptor]) -> Self {
        let texts = read_sources(&settings.paths, &settings.names);
        let (config, mut mistakes, mut warnings) = match parse_sources(&texts, settings) {
            Ok((config, warnings)) => (Some(config), Vec::new(), warnings),
            Err(refusal) => (None, refusal.mistakes, refusal.warnings),
        };
        if let Some(config) = &config {
            match plans {
                Some(plans) => {
                    let find = |name: &str| plans.iter().find(|plan| plan.name().as_str() == name);
                    mistakes = config.check_plans(find);
                }
                None => warnings.extend(config.plans_named().map(|named| {
                    let message = "not checked; name the configuration file that has it: ratekeeper check FILE --rls PATH";
                    named.finding(format!("plan: `{}`; {message}", named.name))
                })),
            }
        }
        let explain = |config| {
            let explain = |asked: &AskedDescriptor| Explanation::of(config, &asked.domain, &asked.entries);
            asked.iter().map(explain).collect()
        };
        let explanations = config.as_ref().map(explain).unwrap_or_default();
        RlsCheck { files: texts.len(), config, mistakes, warnings, explanations }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Writes every finding in its line, what was asked for, and how it went.
    pub(super) fn write(&self, out: &mut String) {
        // Writing to a string cannot fail.
        for mistake in &self.mistakes {
            let _ = writeln!(out, "{mistake}");
        }
        for RlsFinding { file, line, message } in &self.warnings {
            let _ = match line {
                Some(line) => writeln!(out, "{file}:{line}: warning: {message}"),
                None => writeln!(out, "{file}: warning: {message}"),
            };
        }
        for explanation in &self.explanations {
            let _ = write!(out, "{explanation}");
        }
        let _ = match &self.config {
            Some(config) if self.is_ok() => {
                let (domains, rules) = (config.domains().len(), config.rules().len());
                let (files, domains, rules) =
                    (counted(self.files, "file"), counted(domains, "domain"), counted(rules, "limit"));
                writeln!(out, "rls: ok, {files}, {domains}, {rules}")
            }
            _ => writeln!(out, "rls: {}", counted(self.mistakes.len(), "mistake")),
        };
    }

    pub(super) fn to_json(&self) -> Value {
        let told = |findings: &[RlsFinding]| -> Vec<Value> {
            let one = |finding: &RlsFinding| json!({ "file": *finding.file, "line": finding.line, "message": finding.message });
            findings.iter().map(one).collect()
        };
        json!({
            "ok": self.is_ok(),
            "files": self.files,
            "domains": self.config.as_ref().map(RateLimitConfig::domains),
            "limits": self.config.as_ref().map(|config| config.rules().len()),
            "errors": told(&self.mistakes),
            "warnings": told(&self.warnings),
            "explanations": self.explanations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_written_in_one_argument() {
        let read = |text: &str| {
            let asked: AskedDescriptor = text.parse().unwrap();
            let entries = asked.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
            (asked.domain, entries.collect::<Vec<_>>().join(" "))
        };
        let domain = "edge".to_owned();
        assert_eq!(read("edge user=bob,path=/x?a=1"), (domain.clone(), "user=bob path=/x?a=1".to_owned()));
        assert_eq!(read(" edge  list=a\\,b\\\\,k= "), (domain.clone(), "list=a,b\\ k=".to_owned()));
        assert_eq!(read("edge"), (domain, String::new()));
        for wrong in ["", "  ", "edge user", "edge =bob", "edge user=bob,"] {
            assert!(wrong.parse::<AskedDescriptor>().is_err(), "{wrong:?}");
        }
    }
}
