//! YAML as Go reads it.

use ratekeeper_server::rls::{RlsSettings, RuleLimit, SourceTexts, parse_sources};
use serde_json::json;

use crate::rls_rules::support::{find, mistakes, parse, parse_all, told};

#[test]
fn booleans_and_numbers_of_yaml_1_1() {
    let config = parse(
        "\
domain: yes
descriptors:
  - {key: 1, value: on, shadow_mode: on, quota_mode: y, rate_limit: {unit: MiNuTe, requests_per_unit: 1_000}}
  - {key: 2026-01-02, value: 0x10, shadow_mode: No, rate_limit: {unit: day, requests_per_unit: 010}}
  - {key: ~x, value: ~, rate_limit: {unlimited: off, unit: hour, requests_per_unit: 0x10, name: null}}
  - {key: \"0.5\", value: '1.5', rate_limit: {unlimited: TRUE, unit: , requests_per_unit: 7}}
",
    );
    let rule = |asked| find(&config, "yes", asked).unwrap().rule;
    assert_eq!(told(&config, "yes", "(1=on)"), "1000 MINUTE yes.1_on");
    assert!(rule("(1=on)").is_shadow && rule("(1=on)").is_quota);
    assert_eq!(
        told(&config, "yes", "(2026-01-02=0x10)"),
        "8 DAY yes.2026-01-02_0x10",
        "octal, and as written"
    );
    assert!(!rule("(2026-01-02=0x10)").is_shadow);
    assert_eq!(told(&config, "yes", "(~x=any)"), "16 HOUR yes.~x", "null is no value");
    assert_eq!(rule("(~x=any)").name, "");
    assert!(matches!(rule("(0.5=1.5)").limit, RuleLimit::Unlimited));
}

#[test]
fn anchors_aliases_and_merges() {
    let config = parse(
        "\
domain: d
descriptors:
  - &a
    key: a
    rate_limit: &limit {unit: minute, requests_per_unit: 5}
  - {key: b, rate_limit: *limit}
  - {<<: *a, key: c}
  - {key: d, rate_limit: {<<: *limit, requests_per_unit: 6}}
  - {<<: *a, key: e, rate_limit: {requests_per_unit: 7}}
  - {key: f, <<: [{value: first}, {value: second, shadow_mode: true}], rate_limit: *limit}
",
    );
    for (asked, expected) in [
        ("(a=x)", "5 MINUTE d.a"),
        ("(b=x)", "5 MINUTE d.b"),
        ("(c=x)", "5 MINUTE d.c"),
        ("(d=x)", "6 MINUTE d.d"),
        // A second `rate_limit` adds to the first, as in Go.
        ("(e=x)", "7 MINUTE d.e"),
        // Of a list, the first counts.
        ("(f=first)", "5 MINUTE d.f_first"),
    ] {
        assert_eq!(told(&config, "d", asked), expected, "{asked}");
    }
    assert!(find(&config, "d", "(f=first)").unwrap().rule.is_shadow);
    // In quotes it is a key, and an unknown one.
    assert_eq!(mistakes("domain: d\n'<<': {}\n"), ["2: config error, unknown key '<<'"]);
    // The last word counts, whoever has it: this `<<` comes after the key.
    let later = parse(
        "domain: d\ndescriptors:\n  - {key: a, <<: {key: b}, rate_limit: {unit: day, requests_per_unit: 1}}\n",
    );
    assert_eq!(told(&later, "d", "(b=1)"), "1 DAY d.b");
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let config = parse(
        "domain: x\ndomain: d\ndescriptors: [{key: z}]\ndescriptors:\n  - {key: a, key: b, rate_limit: {unit: day, unit: hour, requests_per_unit: 1}}\n",
    );
    assert_eq!(told(&config, "d", "(b=1)"), "1 HOUR d.b");
    assert_eq!(told(&config, "d", "(z=1)"), "–");
    assert_eq!(config.rules().len(), 1);
    assert_eq!(config.domains(), ["d"]);
}

#[test]
fn whatever_stands_below_metadata() {
    let config = parse(
        "\
domain: d
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata:
      x-unknown: {1: 0.5, yes: [~, off, text], big: 18446744073709551615, nan: .nan, inf: -.inf}
      list: [[1], {a: 2026-01-02}]
      <<: {merged: 1}
  - key: b
    metadata: {}
    rate_limit: {unit: day, requests_per_unit: 1}
",
    );
    let metadata = |asked| find(&config, "d", asked).unwrap().rule.metadata.as_deref().cloned();
    assert_eq!(
        serde_json::Value::Object(metadata("(a=1)").unwrap()),
        json!({
            "x-unknown": {"1": 0.5, "true": [null, false, "text"], "big": u64::MAX, "nan": "NaN", "inf": "-Infinity"},
            "list": [[1], {"a": "2026-01-02"}],
            "merged": 1,
        })
    );
    assert_eq!(metadata("(b=1)"), None);
}

#[test]
fn only_the_first_document_counts_and_an_empty_one_has_no_domain() {
    let config = parse("---\ndomain: d\ndescriptors: ~\n---\nnot: [yaml\n");
    assert_eq!((config.domains(), config.rules().len()), (vec!["d"], 0));
    for empty in ["", "# nothing\n", "~\n", "---\n"] {
        assert_eq!(mistakes(empty), ["1: config file cannot have empty domain"], "{empty:?}");
    }
}

/// As people align what they write.
#[test]
fn tabs_between_keys_and_values_are_spaces() {
    let tabs = "domain:\td\ndescriptors:\t# all\n  - key:\t\ta\n    value: \t\"x:\ty\"\n    rate_limit:\n      unit:\tday\n      requests_per_unit:\t5\n";
    let spaces = tabs.replace("x:\ty", "x:_y").replace('\t', " ").replace("x:_y", "x:\ty");
    let config = |text: &str| {
        let texts = SourceTexts::from_texts([("a.yaml", text)]);
        parse_sources(&texts, &RlsSettings::default()).unwrap().0.listing()
    };
    assert_eq!(config(tabs), config(&spaces));
    assert_eq!(config(tabs).lines().count(), 1);
    // What cannot be read for another reason is told as it stands.
    let texts = SourceTexts::from_texts([("a.yaml", "domain:\td\n\tdescriptors: []\n")]);
    let refusal = parse_sources(&texts, &RlsSettings::default()).unwrap_err().to_string();
    assert!(refusal.starts_with("a.yaml:"), "{refusal}");
}

#[test]
fn without_files_there_is_a_configuration_without_domains() {
    let config = parse_all(&[], &RlsSettings::default()).unwrap();
    assert!(config.is_empty() && config.domains().is_empty());
}

#[test]
fn descriptors_are_nested_32_levels_deep() {
    let nested = |levels: usize| {
        let open = "{key: k, descriptors: [".repeat(levels - 1);
        let rest = "]}".repeat(levels - 1);
        format!(
            "domain: d\ndescriptors: [{open}{{key: k, rate_limit: {{unit: day, requests_per_unit: 1}}}}{rest}]\n"
        )
    };
    let config = parse(&nested(32));
    let asked = "(k=v)".repeat(32);
    assert!(find(&config, "d", &asked).is_some());
    assert_eq!(mistakes(&nested(33)), ["2: descriptors are nested deeper than 32 levels"]);
}
