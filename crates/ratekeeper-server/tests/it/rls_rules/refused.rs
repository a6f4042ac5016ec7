//! Case 43: every wrong file and its message, with a line. And what is only strange.

use ratekeeper_server::rls::RlsSettings;

use crate::rls_rules::fixtures::BASIC;
use crate::rls_rules::support::{mistakes, parse_all, warnings};

/// The thirteen wrong files of the Go service's own tests.
#[test]
fn the_wrong_files_of_their_tests() {
    for (text, expected) in [
        ("descriptors:\n", "1: config file cannot have empty domain"),
        ("domain: d\ndescriptors:\n  - value: value1\n", "3: descriptor has empty key"),
        (
            "domain: test-domain\ndescriptors:\n  - key: key1\n    value: value1\n\n  - key: key1\n    value: value1\n",
            "6: duplicate descriptor composite key 'test-domain.key1_value1'",
        ),
        (
            "domain: d\ndescriptors:\n  - key: key1\n    rate_limit:\n      unit: foo\n      requests_per_unit: 5\n",
            "5: invalid rate limit unit 'foo'",
        ),
        (
            "domain: d\ndescriptors:\n  - key: key1\n    rate_limit:\n      name: self\n      replaces:\n        - name: self\n      unit: second\n      requests_per_unit: 5\n",
            "7: replaces should not contain name of same descriptor",
        ),
        (
            "domain: d\ndescriptors:\n  - key: key1\n    rate_limit:\n      name: self\n      replaces:\n        - name:\n      unit: second\n      requests_per_unit: 5\n",
            "7: should not have an empty replaces entry",
        ),
        ("'''\n", "1: error loading config file: "),
        (
            "domain: d\ndescriptors:\n  - key: key1\n    ratelimit:\n      unit: day\n      requests_per_unit: 5\n",
            "4: config error, unknown key 'ratelimit'",
        ),
        (
            "domain: d\ndescriptors:\n  - key: key1\n    rate_limit:\n      unit: day\n      requestsperunit: 5\n",
            "6: config error, unknown key 'requestsperunit'",
        ),
        ("domain: d\n0.25: d\n", "2: config error, key is not of type string: 0.25"),
        (
            "domain: d\ndescriptors:\n  - a\n",
            "3: config error, yaml file contains list of type other than map: a",
        ),
        (
            "domain: d\ndescriptors:\n  - key: foo\n    rate_limit:\n      unlimited: true\n      unit: day\n      requests_per_unit: 25\n",
            "6: should not specify rate limit unit when unlimited",
        ),
    ] {
        let mistakes = mistakes(text);
        assert_eq!(mistakes.len(), 1, "{text}{mistakes:?}");
        assert!(mistakes[0].starts_with(expected), "{text}{mistakes:?}");
    }
    let twice = parse_all(&[BASIC, "domain: test-domain\ndescriptors:\n"], &RlsSettings::default());
    assert_eq!(twice.unwrap_err(), ["b.yaml:1: duplicate domain 'test-domain' in config file"]);
}

#[test]
fn what_else_is_refused() {
    let descriptor = |fields: &str| format!("domain: d\ndescriptors:\n  - key: k\n    {fields}\n");
    for (fields, expected) in [
        ("value: 0.5", "4: error checking config (`value: 0.5` is a float"),
        ("value: 18446744073709551616", "4: error checking config"),
        ("value: 9223372036854775808", "4: error checking config"),
        ("value: 08", "4: error checking config"),
        ("value: [a]", "4: error loading config file: `value` must be text"),
        (
            "share_threshold: true",
            "4: share_threshold can only be used with wildcard values (containing '*'), but found key 'k'",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: -5}",
            "4: error loading config file: `requests_per_unit: -5`; must be a whole number from 0 to 4294967295",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: 4294967296}",
            "4: error loading config file: `requests_per_unit",
        ),
        (
            "rate_limit: {unit: day, requests_per_unit: '5'}",
            "4: error loading config file: `requests_per_unit",
        ),
        ("rate_limit: {unit: day, requests_per_unit: 1.5}", "4: error checking config"),
        ("rate_limit: {requests_per_unit: 1}", "4: invalid rate limit unit ''"),
        ("rate_limit: {unit: unknown, requests_per_unit: 1}", "4: invalid rate limit unit 'unknown'"),
        ("rate_limit: []", "4: error loading config file: `rate_limit: a list`; must be a map"),
        ("shadow_mode: 'true'", "4: error loading config file: `shadow_mode: true`; must be true or false"),
        ("descriptors: some", "4: error loading config file: `descriptors: some`; must be a list"),
        ("descriptors: [~]", "4: config error, yaml file contains list of type other than map: <nil>"),
        ("metadata: some", "4: error loading config file: `metadata: some`; must be a map"),
        ("yes: 1", "4: config error, key is not of type string: yes"),
        ("? [a]\n    : 1", "4: error loading config file: a list or a map cannot be a key"),
        ("<<: 5", "4: error loading config file: what is merged by `<<` must be a map"),
        ("value: !!int five", "4: error loading config file: cannot read `five` as !!int"),
        ("value: *none", "4: error loading config file: "),
        // A key that the Go service knows elsewhere, with something in it that it refuses anywhere.
        ("domain: 0.5", "4: error checking config"),
        ("replaces: [{nme: x}]", "4: config error, unknown key 'nme'"),
    ] {
        let mistakes = mistakes(&descriptor(fields));
        assert!(mistakes[0].starts_with(expected), "{fields}: {mistakes:?}");
    }
    assert_eq!(
        mistakes("[a, b]"),
        ["1: error loading config file: expected a map with `domain` and `descriptors`"]
    );
}

#[test]
fn every_mistake_is_told_in_the_order_of_lines() {
    let text = "\
descriptors:
  - key: a
    rate_limit: {unit: foo, requests_per_unit: -1}
  - {key: b, valu: x}
  - {key: c, share_threshold: true, rate_limit: {unit: bar}}
  - d
  - {key: 0.5}
";
    let mistakes = mistakes(text);
    let starts: Vec<&str> = mistakes.iter().map(|mistake| &mistake[..mistake.len().min(40)]).collect();
    assert_eq!(
        starts,
        [
            "1: config file cannot have empty domain",
            "3: error loading config file: `requests_",
            "4: config error, unknown key 'valu'",
            "5: share_threshold can only be used with",
            "5: invalid rate limit unit 'bar'",
            "6: config error, yaml file contains list",
            "7: error checking config (`key: 0.5` is ",
        ]
    );
}

#[test]
fn a_file_that_is_wrong_everywhere_is_not_told_of_for_ever() {
    let text = format!("domain: d\ndescriptors:\n{}", "  - x\n".repeat(2_000));
    let mistakes = parse_all(&[&text], &RlsSettings::default()).unwrap_err();
    assert_eq!(mistakes.len(), 1_001);
    assert_eq!(mistakes[1_000], "a.yaml: there are more than these 1000");
}

#[test]
fn strange_things_are_warned_of() {
    let text = "\
domain: d
descriptors:
  - {key: a, rate_limit: {unit: day}}
  - {key: b, value: x*, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: b, value: xy*, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: c, rate_limit: {unit: day, requests_per_unit: 1, name: 'say \"hi\"', replaces: [{name: nobody}]}}
  - key: d
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors: [{key: e}]
  - {key: f, unit: day}
  - {key: g, rate_limit: {unit: day, requests_per_unit: 0}}
";
    let warnings = warnings(text);
    for (warning, (line, word)) in warnings.iter().zip([
        ("3: ", "bans everyone"),
        ("5: ", "'xy*' is never reached: 'x*' comes first"),
        ("6: ", "quotes or control characters"),
        ("6: ", "replaces 'nobody', a name that no limit of domain 'd' has"),
        ("8: ", "only for requests that end here"),
        ("10: ", "`unit` means nothing here: it belongs in `rate_limit`"),
    ]) {
        assert!(warning.starts_with(line) && warning.contains(word), "{warning}");
    }
    assert_eq!(warnings.len(), 6, "{warnings:?}");
    assert!(warnings_of_good().is_empty());
}

fn warnings_of_good() -> Vec<String> {
    warnings(
        "domain: d\ndescriptors:\n  - {key: a, value: xy*, rate_limit: {unit: day, requests_per_unit: 1, name: n}}\n  - {key: a, value: x*, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: n}]}}\n",
    )
}
