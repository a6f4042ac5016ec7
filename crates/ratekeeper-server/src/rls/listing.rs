//! A configuration as people look at it: a line for each limit.

use std::fmt::Write;

use ratekeeper::{Algorithm, Anchor};

use super::matching::{FoundRule, RateLimitConfig};
use super::rule::{LimitPlan, RuleLimit, ToldLimit};
use super::unit::LimitUnit;

impl RateLimitConfig {
    /// Returns a line for each limit, in the order of the files. Limits that the Go service knows, too, are written as it
    /// writes them: `edge.user_bob: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false`. What it does not
    /// know stands behind.
    pub fn listing(&self) -> String {
        let mut lines = String::new();
        for rule in self.rules() {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{}", line(&rule));
        }
        lines
    }
}

fn line(found: &FoundRule<'_>) -> String {
    let rule = found.rule;
    let (told, is_plain) = match &rule.limit {
        RuleLimit::Unlimited => (Some((None, 0)), false),
        RuleLimit::Banned(unit) => (Some((Some(*unit), 0)), true),
        RuleLimit::Limited(limited) => match limited.told {
            ToldLimit::AsWritten { requests_per_unit, unit } => {
                (Some((unit, requests_per_unit)), unit.is_some() && is_one_window(&limited.plan))
            }
            ToldLimit::ByBinding => (None, false),
        },
    };
    let mut line = one_line(found.written().as_str());
    line.push(':');
    if let Some((unit, count)) = told {
        let unit = unit.map_or("UNKNOWN", LimitUnit::name);
        let _ = write!(line, " unit={unit} requests_per_unit={count},");
    }
    let _ = write!(line, " shadow_mode: {}, quota_mode: {}", rule.is_shadow, rule.is_quota);
    if !is_plain {
        let _ = write!(line, ", limit: {}", one_line(&rule.limit.to_string()));
    }
    line
}

/// Returns true of what the Go service can do.
fn is_one_window(plan: &LimitPlan) -> bool {
    let LimitPlan::Own(plan) = plan else { return false };
    let is_window = |algorithm| matches!(algorithm, Algorithm::FixedWindow(Anchor::Grid));
    matches!(plan.rules(), [only] if is_window(only.quota().algorithm()))
}

/// Returns a text without line ends and the like: files may have any in their values.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::source::{SourceTexts, parse_sources};
    use crate::settings::RlsSettings;

    const FILE: &str = r#"
domain: edge
descriptors:
  - key: user
    value: bob
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: user
    shadow_mode: true
    rate_limit: {unit: week, requests_per_unit: 7}
    descriptors:
      - key: path
        value: "a\nb"
        quota_mode: true
        rate_limit: {unit: second, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: smooth
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: gcra, burst: 20}
  - key: report
    rate_limit: {unit: minute, unit_multiplier: 5, requests_per_unit: 10}
  - key: bill
    rate_limit: {unit: month, requests_per_unit: 10, calendar: UTC}
  - key: account
    rate_limit: {limit: "10/s burst 20; 250/day fixed grid"}
  - key: partner
    rate_limit: {plan: gold}
"#;

    #[test]
    fn a_line_for_each_limit() {
        let texts = SourceTexts::from_texts([("a.yaml", FILE)]);
        let (config, _) = parse_sources(&texts, &RlsSettings::default()).unwrap();
        let lines = config.listing();
        assert_eq!(
            lines.lines().collect::<Vec<_>>(),
            [
                "edge.user_bob: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false",
                "edge.user: unit=WEEK requests_per_unit=7, shadow_mode: true, quota_mode: false",
                "edge.user.path_a\\nb: unit=SECOND requests_per_unit=0, shadow_mode: false, quota_mode: true",
                "edge.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, limit: unlimited",
                "edge.smooth: unit=MINUTE requests_per_unit=100, shadow_mode: false, quota_mode: false, \
                 limit: 100/m burst 20",
                "edge.report: unit=UNKNOWN requests_per_unit=10, shadow_mode: false, quota_mode: false, \
                 limit: 10 per 5m fixed grid",
                "edge.bill: unit=MONTH requests_per_unit=10, shadow_mode: false, quota_mode: false, \
                 limit: 10/month fixed calendar",
                "edge.account: shadow_mode: false, quota_mode: false, limit: 10/s burst 20; 250/day fixed grid",
                "edge.partner: shadow_mode: false, quota_mode: false, limit: plan gold",
            ]
        );
    }
}
