//! Why a descriptor finds what it finds.

use ratekeeper_server::rls::Explanation;

use crate::rls_rules::fixtures::{BASIC, SHARED};
use crate::rls_rules::support::{entries, parse};

fn explained(text: &str, domain: &str, asked: &str) -> String {
    Explanation::of(&parse(text), domain, &entries(asked)).to_string()
}

#[test]
fn a_rule_that_is_found_is_told_in_full() {
    assert_eq!(
        explained(SHARED, "test-domain", "(path=path/foo)(file=file/doc1)(type=pdf)"),
        "\
domain test-domain
  path=path/foo   by the pattern 'path/*'; no limit here
  file=file/doc1  by the pattern 'file/*'; no limit here
  type=pdf        by the key, which has no value in the file; has a limit
limit: 120/m fixed grid, over: count, on_store_error: error (a.yaml:31)
counter: test-domain|path=path/*|file=file/doc1|type=pdf
counted as: test-domain.path_path/*.file_file/*.type
"
    );
    let named = "domain: d\ndescriptors:\n  - {key: k, value: v, shadow_mode: true, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0, name: n, replaces: [{name: m}, {name: o}]}}\n";
    assert_eq!(
        explained(named, "d", "(k=v)"),
        "\
domain d
  k=v  by its very value; has a limit
limit: nothing may pass (0 in a day), shadow_mode, quota_mode, name: n, replaces: m o (a.yaml:3)
counted as: d.k_v
"
    );
}

#[test]
fn why_nothing_is_found() {
    for (domain, asked, expected) in [
        ("edge", "(key2=x)", "no rule: no domain 'edge': there are 'test-domain'"),
        ("test-domain", "", "no rule: a descriptor without entries finds no rule"),
        (
            "test-domain",
            "(key8=x)",
            "no rule: no key 'key8' at level 1: there are 'key1', 'key2', 'key3', 'key4', 'key5', 'key6', 'key7'",
        ),
        (
            "test-domain",
            "(key1=x)",
            "no rule: key 'key1' has neither the value 'x' nor a pattern that matches it, and stands nowhere without a value: it has 'value1'",
        ),
        ("test-domain", "(key2=value3)", "no rule: what it ends at has no rate_limit: no limit"),
        (
            "test-domain",
            "(key1=value1)",
            "no rule: what it ends at has no rate_limit: limits may sit deeper, at 'subkey1'",
        ),
        (
            "test-domain",
            "(key2=value2)(subkey=x)",
            "no rule: nothing is below entry 1: its limit counts only for descriptors that end there",
        ),
        ("test-domain", "(key2=value3)(subkey=x)", "no rule: nothing is below entry 1"),
    ] {
        let explained = explained(BASIC, domain, asked);
        assert_eq!(explained.lines().last().unwrap(), expected, "{asked}");
    }
    let deeper = explained(BASIC, "test-domain", "(key5=value5)(subkey5=x)");
    assert!(
        deeper.contains(
            "key5=value5  by its very value; has a limit, which counts only for descriptors that end here"
        ),
        "{deeper}"
    );
}

#[test]
fn it_is_json_as_well() {
    let json =
        serde_json::to_value(Explanation::of(&parse(SHARED), "test-domain", &entries("(files=files/a)")))
            .unwrap();
    assert_eq!(json["levels"][0]["matched_by"], "pattern");
    assert_eq!(json["levels"][0]["pattern"], "files/*");
    assert_eq!(json["rule"]["counter_key"], "test-domain|files=files/*");
    assert_eq!(json["rule"]["stat_key"], "test-domain.files_files/*");
    assert_eq!(json["rule"]["line"], 3);
    assert_eq!(json["why_none"], serde_json::Value::Null);
}
