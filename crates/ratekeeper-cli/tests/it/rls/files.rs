//! Case 43, and 8: files that are wrong are told with their line, in the words of the Go service.

use test_support::binary::ratekeeper;
use test_support::folder::Folder;
use test_support::server::Server;

/// A file of one rule, whose descriptor this is.
fn rule(text: &str) -> String {
    format!("domain: dom\ndescriptors:\n  - {text}\n")
}

/// Every wrong file, the line that is wrong, and how the message begins.
fn wrong() -> Vec<(&'static str, String, usize, &'static str)> {
    let twice = "{key: key1, value: value1}\n  - {key: key1, value: value1}";
    let nested = "{key: a, descriptors: [\n    {key: key1, value: value1},\n    {key: key1, value: value1}]}";
    let replaced = "{key: k, rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: ";
    vec![
        ("no domain", "descriptors:\n  - key: k\n".to_owned(), 1, "config file cannot have empty domain"),
        ("an empty one", "domain: \"\"\n".to_owned(), 1, "config file cannot have empty domain"),
        ("no key", rule("value: v"), 3, "descriptor has empty key"),
        ("twice", rule(twice), 4, "duplicate descriptor composite key 'dom.key1_value1'"),
        ("twice below", rule(nested), 5, "duplicate descriptor composite key 'dom.a.key1_value1'"),
        (
            "a unit",
            rule("{key: k, rate_limit: {unit: foo, requests_per_unit: 5}}"),
            3,
            "invalid rate limit unit 'foo'",
        ),
        ("no unit", rule("{key: k, rate_limit: {requests_per_unit: 5}}"), 3, "invalid rate limit unit ''"),
        (
            "unlimited with a unit",
            rule("{key: k, rate_limit: {unlimited: true, unit: day}}"),
            3,
            "should not specify rate limit unit when unlimited",
        ),
        (
            "itself",
            rule(&format!("{replaced}n}}]}}}}")),
            3,
            "replaces should not contain name of same descriptor",
        ),
        ("nameless", rule(&format!("{replaced}\"\"}}]}}}}")), 3, "should not have an empty replaces entry"),
        ("unknown", rule("{key: k, ratelimit: {unit: day}}"), 3, "config error, unknown key 'ratelimit'"),
        ("unknown at the top", "domain: d\nrules: []\n".to_owned(), 2, "config error, unknown key 'rules'"),
        ("not text", rule("{key: k, 0.25: v}"), 3, "config error, key is not of type string: 0.25"),
        (
            "a list of scalars",
            "domain: d\ndescriptors:\n  - a\n  - b\n".to_owned(),
            3,
            "config error, yaml file contains list of type other than map: a",
        ),
        (
            "a float",
            rule("{key: k, rate_limit: {unit: day, requests_per_unit: 1.5}}"),
            3,
            "error checking config",
        ),
        ("a float as a value", rule("{key: k, value: 1.5}"), 3, "error checking config"),
        (
            "shared without a star",
            rule("{key: k, value: v, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}"),
            3,
            "share_threshold can only be used with wildcard values (containing '*'), but found key 'k_v'",
        ),
        ("not YAML", "domain: dom\ndescriptors: [\n".to_owned(), 3, "error loading config file: "),
        (
            "negative",
            rule("{key: k, rate_limit: {unit: day, requests_per_unit: -1}}"),
            3,
            "error loading config file: ",
        ),
        (
            "too many",
            rule("{key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}"),
            3,
            "error loading config file: ",
        ),
    ]
}

/// What `check` says of these files: whether they are right, and its words.
fn check(files: &[(&str, &str)], flags: &[&str]) -> (bool, String) {
    let folder = Folder::new("rls-check");
    std::fs::create_dir(folder.path("rules")).unwrap();
    for (name, text) in files {
        folder.write(&format!("rules/{name}"), text);
    }
    let rules = folder.path("rules");
    let output = ratekeeper(&["check", "--rls", &rules]).args(flags).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn every_mistake_is_told_with_its_line() {
    for (what, text, line, message) in wrong() {
        let (is_right, said) = check(&[("a.yaml", &text)], &[]);
        assert!(!is_right, "{what} is taken:\n{text}\n{said}");
        let expected = format!("a.yaml:{line}: {message}");
        assert!(said.contains(&expected), "{what}:\n{text}\nexpected `{expected}`, told\n{said}");
    }
}

/// A running server says the same, and goes on with what it has.
#[test]
fn a_server_tells_every_mistake_and_goes_on() {
    let folder = Folder::new("rls-wrong");
    let path = folder.write("a.yaml", rule("{key: k, rate_limit: {unit: day, requests_per_unit: 5}}"));
    let server = Server::with(&["--rls", &path]);
    for (what, text, line, message) in wrong() {
        folder.write("a.yaml", &text);
        server.signal("HUP");
        let said = server.await_log(message);
        assert!(said.contains(&format!("a.yaml:{line}: ")) && said.contains("ERROR"), "{what}: {said}");
    }
}

#[test]
fn files_of_one_domain() {
    let one = "domain: d\ndescriptors:\n  - {key: key1, value: value1, rate_limit: {unit: minute, requests_per_unit: 10}}\n";
    let two = "domain: d\ndescriptors:\n  - {key: key2, value: value2, rate_limit: {unit: minute, requests_per_unit: 20}}\n";
    let (is_right, said) = check(&[("a.yaml", one), ("b.yaml", two)], &[]);
    assert!(!is_right && said.contains("b.yaml:1: duplicate domain 'd' in config file"), "{said}");
    let merged = |files: &[(&str, &str)]| {
        let folder = Folder::new("rls-merge");
        let config = folder.write("m.toml", "[rls]\nmerge_domains = true\n");
        check(files, &[&config])
    };
    let (is_right, said) = merged(&[("a.yaml", one), ("b.yaml", two)]);
    assert!(is_right, "{said}");
    let (is_right, said) = merged(&[("a.yaml", one), ("b.yaml", one)]);
    assert!(
        !is_right && said.contains("b.yaml:3: duplicate descriptor composite key 'd.key1_value1'"),
        "{said}"
    );
}
