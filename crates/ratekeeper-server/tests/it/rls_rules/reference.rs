//! The matcher against one that is slow and plain, on random configurations and descriptors.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratekeeper_server::rls::{
    DescriptorSpec, DomainSpec, Found, LimitSpec, Placed, RateLimitConfig, RlsEntry, RlsSettings,
    SourceTexts, StatName, parse_sources,
};
use serde_json::{Value, json};

const KEYS: [&str; 3] = ["a", "b", "a_b"];
const VALUES: [&str; 8] = ["", "x", "xy", "xyx", "y*", "x_y", "yy", "ü"];

fn patterns() -> impl Strategy<Value = String> {
    vec(select(vec!["x", "y", "*", "*", "ü", "_"]), 1..6).prop_map(|parts| parts.concat())
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![select(&VALUES[..]).prop_map(str::to_owned), patterns()]
}

fn descriptors() -> impl Strategy<Value = Vec<DescriptorSpec>> {
    let leaf = Just(Vec::new());
    leaf.prop_recursive(3, 60, 14, |below| {
        let fields = (select(&KEYS[..]), values(), any::<[bool; 4]>(), below);
        let one = fields.prop_map(|(key, value, [limited, detailed, to_metric, shared], descriptors)| {
            let share_threshold = (shared && value.contains('*')).into();
            let (unit, requests_per_unit) = (Some("minute".into()), Some(1.into()));
            let rate_limit = LimitSpec { unit, requests_per_unit, ..LimitSpec::default() };
            DescriptorSpec {
                key: key.into(),
                value: Placed::from(value),
                rate_limit: limited.then_some(rate_limit),
                detailed_metric: detailed,
                value_to_metric: to_metric,
                share_threshold,
                descriptors,
                ..DescriptorSpec::default()
            }
        });
        vec(one, 1..14)
    })
}

/// Leaves the first of those with the same key and value, and numbers the limits.
fn tidied(descriptors: Vec<DescriptorSpec>, next: &mut u32) -> Vec<DescriptorSpec> {
    let mut kept: Vec<DescriptorSpec> = Vec::new();
    for mut spec in descriptors {
        if kept.iter().any(|other| (&other.key, &other.value) == (&spec.key, &spec.value)) {
            continue;
        }
        if let Some(limit) = &mut spec.rate_limit {
            *next += 1;
            limit.requests_per_unit = Some((*next).into());
        }
        spec.descriptors = tidied(spec.descriptors, next);
        kept.push(spec);
    }
    kept
}

fn entries() -> impl Strategy<Value = Vec<RlsEntry>> {
    let value = prop_oneof![
        select(&VALUES[..]).prop_map(str::to_owned),
        vec(select(vec!["x", "y", "ü", "_"]), 0..6).prop_map(|parts| parts.concat()),
    ];
    let entry = (select(&KEYS[..]), value).prop_map(|(key, value)| RlsEntry { key: key.to_owned(), value });
    vec(entry, 0..5)
}

/// A glob, letter by letter.
fn globs(pattern: &[char], value: &[char]) -> bool {
    match (pattern, value) {
        ([], []) => true,
        (['*', rest @ ..], _) => globs(rest, value) || (!value.is_empty() && globs(pattern, &value[1..])),
        ([one, pattern @ ..], [other, value @ ..]) => one == other && globs(pattern, value),
        _ => false,
    }
}

fn matches(pattern: &str, value: &str) -> bool {
    globs(&pattern.chars().collect::<Vec<_>>(), &value.chars().collect::<Vec<_>>())
}

/// The descriptor of a level that an entry finds.
fn pick<'s>(level: &'s [DescriptorSpec], entry: &RlsEntry) -> Option<&'s DescriptorSpec> {
    let of_key = || level.iter().filter(|spec| spec.key.value == entry.key);
    // A pattern is found by its own text before others that match it.
    let exact = of_key().find(|spec| !spec.value.value.is_empty() && spec.value.value == entry.value);
    let pattern =
        || of_key().find(|spec| spec.value.value.contains('*') && matches(&spec.value.value, &entry.value));
    exact.or_else(pattern).or_else(|| of_key().find(|spec| spec.value.value.is_empty()))
}

/// The count of the limit that is found, the values in its counter, and its name.
fn expected(root: &[DescriptorSpec], entries: &[RlsEntry]) -> Option<(u32, Vec<String>, String)> {
    let mut level = root;
    let mut path: Vec<&DescriptorSpec> = Vec::new();
    for entry in entries {
        let spec = pick(level, entry)?;
        path.push(spec);
        level = &spec.descriptors;
    }
    let last = path.last()?;
    let count = last.rate_limit.as_ref()?.requests_per_unit.as_ref()?.value;
    let pairs = || path.iter().zip(entries);
    let counted = pairs()
        .map(|(spec, entry)| if spec.share_threshold.value { &spec.value.value } else { &entry.value });
    let any_shared = path.iter().any(|spec| spec.share_threshold.value);
    let mut stat = "d".to_owned();
    for (spec, entry) in pairs() {
        let is_open = spec.value.value.is_empty() || spec.value.value.contains('*');
        let value = if spec.share_threshold.value {
            &spec.value.value
        } else if last.detailed_metric || (spec.value_to_metric && is_open) {
            &entry.value
        } else {
            &spec.value.value
        };
        let underscore = !value.is_empty() || (last.detailed_metric && !any_shared);
        stat += &format!(".{}{}{value}", entry.key, if underscore { "_" } else { "" });
    }
    Some((count, counted.cloned().collect(), stat))
}

fn found(config: &RateLimitConfig, entries: &[RlsEntry]) -> Option<(u32, Vec<String>, String)> {
    let Found::Rule(found) = config.find("d", entries) else { return None };
    let mut stat = StatName::new();
    let stat = found.stat(&mut stat, entries).to_string();
    let count = found.rule.limit.to_string().split('/').next()?.parse().ok()?;
    let value = |(index, entry): (usize, &RlsEntry)| match found.shared.get(index) {
        Some(Some(pattern)) => pattern.to_string(),
        _ => entry.value.clone(),
    };
    Some((count, entries.iter().enumerate().map(value).collect(), stat))
}

/// The same configuration as a file: JSON is YAML.
fn to_file(descriptors: &[DescriptorSpec]) -> Value {
    let one = |spec: &DescriptorSpec| {
        let mut map = json!({
            "key": spec.key.value,
            "value": spec.value.value,
            "detailed_metric": spec.detailed_metric,
            "value_to_metric": spec.value_to_metric,
            "share_threshold": spec.share_threshold.value,
            "descriptors": to_file(&spec.descriptors),
        });
        if let Some(limit) = &spec.rate_limit {
            let count = limit.requests_per_unit.as_ref().unwrap().value;
            map["rate_limit"] = json!({"unit": "minute", "requests_per_unit": count});
        }
        map
    };
    Value::Array(descriptors.iter().map(one).collect())
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    #[test]
    fn the_matcher_finds_what_the_slow_one_finds(
        descriptors in descriptors(),
        asked in vec(entries(), 1..40),
    ) {
        let descriptors = tidied(descriptors, &mut 0);
        let file = json!({"domain": "d", "descriptors": to_file(&descriptors)}).to_string();
        let specs = [DomainSpec { file: "a".into(), domain: "d".into(), descriptors }];
        let settings = RlsSettings::default();
        let (compiled, _) = RateLimitConfig::compile(&specs, &settings).unwrap();
        let (read, _) = parse_sources(&SourceTexts::from_texts([("a", &*file)]), &settings).unwrap();
        for entries in &asked {
            let expected = expected(&specs[0].descriptors, entries);
            prop_assert_eq!(&found(&compiled, entries), &expected, "{:?}", entries);
            prop_assert_eq!(&found(&read, entries), &expected, "{:?} in {}", entries, file);
        }
    }
}
