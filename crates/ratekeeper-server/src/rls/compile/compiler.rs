//! Descriptors become nodes and rules.

use std::sync::Arc;

use super::limit::compile_limit;
use super::names::RuleNames;
use super::report::Report;
use crate::rls::finding::{RlsFinding, RlsRefusal};
use crate::rls::matching::{ConfiguredRule, Level, LevelNode, RateLimitConfig, StatDetail, StatName};
use crate::rls::rule::LimitRule;
use crate::rls::spec::{DescriptorSpec, DomainSpec, LimitSpec};
use crate::settings::RlsSettings;

/// How deep descriptors may be nested.
const MAX_LEVELS: usize = 32;

impl RateLimitConfig {
    /// Makes a configuration of what was written; warnings are what may not be meant.
    ///
    /// # Errors
    ///
    /// Something is wrong: every mistake that there is. One refuses the whole set.
    pub fn compile(
        specs: &[DomainSpec],
        settings: &RlsSettings,
    ) -> Result<(Self, Vec<RlsFinding>), RlsRefusal> {
        let mut compiler = Compiler::new(settings);
        specs.iter().for_each(|spec| compiler.add(spec));
        compiler.finish()
    }
}

/// Makes a configuration, file by file.
#[derive(Debug)]
pub(in crate::rls) struct Compiler<'a> {
    settings: &'a RlsSettings,
    config: RateLimitConfig,
    names: RuleNames,
    pub(in crate::rls) report: Report,
}

impl<'a> Compiler<'a> {
    pub(in crate::rls) fn new(settings: &'a RlsSettings) -> Self {
        let (config, names, report) = Default::default();
        Compiler { settings, config, names, report }
    }

    /// Adds what a file says.
    pub(in crate::rls) fn add(&mut self, spec: &DomainSpec) {
        self.report.of_file(&spec.file);
        let (domain, line) = (&*spec.domain.value, spec.domain.line);
        if domain.is_empty() {
            self.report.mistake(line, "config file cannot have empty domain");
        }
        let earlier = self.config.domains.remove(domain);
        if earlier.is_some() && !self.settings.merges_domains && !domain.is_empty() {
            self.report.mistake(line, format!("duplicate domain '{domain}' in config file"));
        }
        // Where domains are not merged, what the earlier file says is no mistake of this one.
        let mut level = earlier.filter(|_| self.settings.merges_domains).unwrap_or_default();
        let mut path = DescriptorPath::new(domain);
        self.add_all(&mut level, &spec.descriptors, &mut path);
        self.config.domains.insert(domain.into(), level);
    }

    fn add_all(&mut self, level: &mut Level, specs: &[DescriptorSpec], path: &mut DescriptorPath) {
        for spec in specs {
            if path.len() == MAX_LEVELS {
                let message = format!("descriptors are nested deeper than {MAX_LEVELS} levels");
                return self.report.mistake(spec.line, message);
            }
            path.push(spec);
            self.add_one(level, spec, path);
            path.pop();
        }
    }

    fn add_one(&mut self, level: &mut Level, spec: &DescriptorSpec, path: &mut DescriptorPath) {
        let (key, value) = (&*spec.key.value, &*spec.value.value);
        if key.is_empty() {
            self.report.mistake(spec.line, "descriptor has empty key");
        } else if level.has(key, value) {
            self.report.mistake(spec.line, format!("duplicate descriptor composite key '{}'", path.written));
        } else if let Some(earlier) = value.contains('*').then(|| level.hiding(key, value)).flatten() {
            let message =
                format!("'{value}' is never reached: '{earlier}' comes first and matches all of it");
            self.report.warning(spec.value.line.or(spec.line), message);
        }
        if spec.share_threshold.value && !value.contains('*') {
            let message = format!(
                "share_threshold can only be used with wildcard values (containing '*'), but found key '{}'",
                spec.composite()
            );
            self.report.mistake(spec.share_threshold.line.or(spec.line), message);
        }
        if spec.rate_limit.is_none()
            && let Some(shadow) = &spec.shadow
        {
            self.report.mistake(shadow.line, "`shadow` stands beside a `rate_limit`, and there is none");
        }
        let rule = spec.rate_limit.as_ref().and_then(|limit| self.rule(spec, limit, path));
        let mut node = LevelNode { rule, next: Level::default() };
        self.add_all(&mut node.next, &spec.descriptors, path);
        level.insert(key, value, node);
    }

    /// Makes the rule of a descriptor, and returns its number.
    fn rule(&mut self, spec: &DescriptorSpec, limit: &LimitSpec, path: &DescriptorPath) -> Option<usize> {
        self.names.note(path.written.domain(), limit, &mut self.report);
        let compiled = compile_limit(limit, spec.shadow.as_ref(), self.settings, &mut self.report);
        if !spec.descriptors.is_empty() {
            let message = "this limit is only for requests that end here: it does not count for those that go on to the descriptors below";
            self.report.warning(limit.line, message);
        }
        let index = self.config.rules.len();
        let rule = LimitRule {
            limit: compiled?,
            name: limit.name.value.clone(),
            replaces: limit.replaces.iter().map(|replaced| replaced.value.clone()).collect(),
            is_shadow: spec.shadow_mode,
            is_quota: spec.quota_mode,
            metadata: spec.metadata.clone().filter(|metadata| !metadata.is_empty()).map(Arc::new),
            index,
        };
        self.config.rules.push(ConfiguredRule {
            rule: Arc::new(rule),
            shared: path.shared(),
            written: path.written.clone(),
            detail: path.detail(spec.detailed_metric),
            file: self.report.file(),
            line: limit.line.or(spec.line),
        });
        Some(index)
    }

    /// Returns the configuration, and the warnings.
    pub(in crate::rls) fn finish(mut self) -> Result<(RateLimitConfig, Vec<RlsFinding>), RlsRefusal> {
        self.names.warn(&mut self.report);
        let (mistakes, warnings) = self.report.finish();
        if mistakes.is_empty() { Ok((self.config, warnings)) } else { Err(RlsRefusal { mistakes, warnings }) }
    }
}

/// The way from the root to a descriptor.
struct DescriptorPath {
    /// The name that a rule here is counted under.
    written: StatName,
    levels: Vec<PathLevel>,
}

struct PathLevel {
    /// The pattern, if all values share a counter.
    shared: Option<Box<str>>,
    /// Whether the value of a request is part of the name.
    has_value: bool,
}

impl DescriptorPath {
    fn new(domain: &str) -> Self {
        let mut written = StatName::new();
        written.begin(domain);
        DescriptorPath { written, levels: Vec::new() }
    }

    fn len(&self) -> usize {
        self.levels.len()
    }

    fn push(&mut self, spec: &DescriptorSpec) {
        let value = &*spec.value.value;
        let is_pattern = value.contains('*');
        let is_shared = spec.share_threshold.value && is_pattern;
        self.written.level(&spec.key.value, value);
        self.levels.push(PathLevel {
            shared: is_shared.then(|| value.into()),
            has_value: spec.value_to_metric && !is_shared && (is_pattern || value.is_empty()),
        });
    }

    fn pop(&mut self) {
        self.written.pop();
        self.levels.pop();
    }

    fn shared(&self) -> Box<[Option<Box<str>>]> {
        match self.levels.iter().any(|level| level.shared.is_some()) {
            true => self.levels.iter().map(|level| level.shared.clone()).collect(),
            false => Box::default(),
        }
    }

    fn detail(&self, is_detailed: bool) -> StatDetail {
        if is_detailed {
            StatDetail::AllValues
        } else if self.levels.iter().any(|level| level.has_value) {
            StatDetail::Levels(self.levels.iter().map(|level| level.has_value).collect())
        } else {
            StatDetail::AsWritten
        }
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::port::ChargeAction;

    use super::*;
    use crate::rls::matching::{Found, write_counter_key};
    use crate::rls::rule::{LimitPlan, RuleLimit};
    use crate::rls::{LimitUnit, RlsEntry};

    fn limit(unit: &str, count: u32) -> Option<LimitSpec> {
        let (unit, requests_per_unit) = (Some(unit.into()), Some(count.into()));
        Some(LimitSpec { unit, requests_per_unit, ..LimitSpec::default() })
    }

    fn descriptor(key: &str, value: &str) -> DescriptorSpec {
        DescriptorSpec { key: key.into(), value: value.into(), ..DescriptorSpec::default() }
    }

    fn compile(descriptors: Vec<DescriptorSpec>) -> Result<RateLimitConfig, String> {
        let spec = DomainSpec { file: "a".into(), domain: "d".into(), descriptors };
        let compiled = RateLimitConfig::compile(&[spec], &RlsSettings::default());
        compiled.map(|(config, _)| config).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_configuration_without_lines_is_compiled_and_found() {
        let shared = DescriptorSpec {
            rate_limit: limit("MINUTE", 5),
            share_threshold: true.into(),
            ..descriptor("files", "a/*")
        };
        let config = compile(vec![shared, descriptor("user", "")]).unwrap();
        let entry = |key: &str, value: &str| [RlsEntry { key: key.into(), value: value.into() }];
        let entries = entry("files", "a/b");
        let Found::Rule(found) = config.find("d", &entries) else { panic!("no rule") };
        let mut key = Vec::new();
        write_counter_key(&mut key, "d", &entries, found.shared);
        assert_eq!(key, b"d|files=a/*");
        assert_eq!(found.fixed_stat().unwrap().as_str(), "d.files_a/*");
        let RuleLimit::Limited(limited) = &found.rule.limit else { panic!("no limit") };
        let LimitPlan::Own(plan) = &limited.plan else { panic!("no plan") };
        assert_eq!(plan.to_string(), "minute=5/m fixed grid");
        assert_eq!(limited.over, Some(ChargeAction::Count));
        assert!(matches!(config.find("d", &entry("user", "bob")), Found::NoRule), "no limit");
        assert!(matches!(config.find("d", &[]), Found::NoRule));
        assert!(matches!(config.find("e", &entries), Found::NoDomain));
    }

    #[test]
    fn mistakes_without_lines_name_what_they_came_from() {
        let twice = [descriptor("k", "v"), descriptor("k", "v")];
        assert_eq!(compile(twice.into()).unwrap_err(), "a: duplicate descriptor composite key 'd.k_v'");
        let mut deep = descriptor("k", "");
        (0..31)
            .for_each(|_| deep = DescriptorSpec { descriptors: vec![deep.clone()], ..descriptor("k", "") });
        assert!(compile(vec![deep.clone()]).is_ok());
        let deeper = DescriptorSpec { descriptors: vec![deep], ..descriptor("k", "") };
        assert_eq!(compile(vec![deeper]).unwrap_err(), "a: descriptors are nested deeper than 32 levels");
        let banned = DescriptorSpec { rate_limit: limit("day", 0), ..descriptor("k", "") };
        let config = compile(vec![banned]).unwrap();
        assert!(matches!(config.rule(0).unwrap().rule.limit, RuleLimit::Banned(LimitUnit::Day)));
    }
}
