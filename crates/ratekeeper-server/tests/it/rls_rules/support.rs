//! What the tests ask in, and what they are answered with.

use ratekeeper_server::rls::{
    Found, FoundRule, LimitPlan, RateLimitConfig, RlsEntry, RlsSettings, RuleLimit, SourceTexts, StatName,
    ToldLimit, parse_sources, write_counter_key,
};

/// Parses files under the names `a.yaml`, `b.yaml` and so on.
pub(crate) fn parse_all(texts: &[&str], settings: &RlsSettings) -> Result<RateLimitConfig, Vec<String>> {
    let names = ["a.yaml", "b.yaml", "c.yaml", "d.yaml"];
    let texts = SourceTexts::from_texts(names.into_iter().zip(texts.iter().copied()));
    match parse_sources(&texts, settings) {
        Ok((config, _)) => Ok(config),
        Err(refusal) => Err(refusal.mistakes.iter().map(ToString::to_string).collect()),
    }
}

pub(crate) fn parse(text: &str) -> RateLimitConfig {
    parse_all(&[text], &RlsSettings::default()).unwrap()
}

/// Returns every mistake of a file, without its name.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    let mistakes = parse_all(&[text], &RlsSettings::default()).expect_err("no mistake");
    mistakes.iter().map(|mistake| mistake.strip_prefix("a.yaml:").unwrap().to_owned()).collect()
}

/// Returns every warning of a file that has no mistake, without its name.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    let texts = SourceTexts::from_texts([("a.yaml", text)]);
    let (_, warnings) = parse_sources(&texts, &RlsSettings::default()).unwrap();
    warnings.iter().map(|warning| warning.to_string().strip_prefix("a.yaml:").unwrap().to_owned()).collect()
}

/// Reads `(key1=value1)(subkey1=something)`.
pub(crate) fn entries(text: &str) -> Vec<RlsEntry> {
    let parts = text.split_terminator(')').map(|part| part.strip_prefix('(').unwrap());
    let entry = |part: &str| {
        let (key, value) = part.split_once('=').unwrap();
        RlsEntry { key: key.to_owned(), value: value.to_owned() }
    };
    parts.map(entry).collect()
}

pub(crate) fn find<'c>(config: &'c RateLimitConfig, domain: &str, text: &str) -> Option<FoundRule<'c>> {
    match config.find(domain, &entries(text)) {
        Found::Rule(found) => Some(found),
        Found::NoRule | Found::NoDomain => None,
    }
}

/// Tells what a descriptor finds: `5 SECOND test-domain.key1`, or `–`.
pub(crate) fn told(config: &RateLimitConfig, domain: &str, text: &str) -> String {
    let Some(found) = find(config, domain, text) else { return "–".to_owned() };
    let mut buffer = StatName::new();
    let stat = found.stat(&mut buffer, &entries(text));
    match &found.rule.limit {
        RuleLimit::Unlimited => format!("unlimited {stat}"),
        RuleLimit::Banned(unit) => format!("0 {} {stat}", unit.name()),
        RuleLimit::Limited(limited) => match limited.told {
            ToldLimit::AsWritten { requests_per_unit, unit } => {
                format!("{requests_per_unit} {} {stat}", unit.map_or("-", |unit| unit.name()))
            }
            ToldLimit::ByBinding => format!("{} {stat}", limited.plan),
        },
    }
}

/// Returns the key of the counter of a descriptor that finds a rule.
pub(crate) fn counter(config: &RateLimitConfig, domain: &str, text: &str) -> String {
    let found = find(config, domain, text).unwrap();
    let mut key = Vec::new();
    write_counter_key(&mut key, domain, &entries(text), found.shared);
    String::from_utf8(key).unwrap()
}

/// Returns the plan that a rule is made of, as text.
pub(crate) fn plan(found: &FoundRule<'_>) -> String {
    match &found.rule.limit {
        RuleLimit::Limited(limited) => match &limited.plan {
            LimitPlan::Own(plan) => plan.to_string(),
            LimitPlan::Named(name) => format!("plan {name}"),
        },
        other => other.to_string(),
    }
}
