//! Sets of cases, each with a server of its own.

use std::path::Path;

use test_support::folder::Folder;
use test_support::port::free_port;
use test_support::redis::server::Server as Redis;
use test_support::server::{Server, run};

/// Every file below `fixtures/`, by name.
const FIXTURES: [(&str, &str); 9] = [
    ("another.yaml", include_str!("fixtures/another.yaml")),
    ("basic.yaml", include_str!("fixtures/basic.yaml")),
    ("metrics.yaml", include_str!("fixtures/metrics.yaml")),
    ("modes.yaml", include_str!("fixtures/modes.yaml")),
    ("replaced.yaml", include_str!("fixtures/replaced.yaml")),
    ("shared.yaml", include_str!("fixtures/shared.yaml")),
    ("small.yaml", include_str!("fixtures/small.yaml")),
    ("threshold.yaml", include_str!("fixtures/threshold.yaml")),
    ("wildcards.yaml", include_str!("fixtures/wildcards.yaml")),
];

/// Rules whose counters lie as those of the Go service do.
const LAYOUT: &str = r#"
domain: domain
descriptors:
  - {key: key, value: value, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: key2, value: value2, descriptors: [{key: subkey2, value: subvalue2, rate_limit: {unit: minute, requests_per_unit: 10}}]}
  - {key: key3, value: value3, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: slow, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: gcra, rate_limit: {unit: year, requests_per_unit: 10, algorithm: gcra}}
"#;

/// A folder with every fixture, in a subfolder as well as at the top, and copies for cases with counters of their own.
fn fixtures() -> Folder {
    let folder = Folder::new("rls-fixtures");
    std::fs::create_dir_all(folder.path("config/copies")).unwrap();
    for (name, text) in FIXTURES {
        folder.write(&format!("config/{name}"), text);
    }
    let (_, replaced) = FIXTURES[4];
    for domain in ["rl34", "rl35"] {
        let copy = replaced.replace("domain: rl\n", &format!("domain: {domain}\n"));
        folder.write(&format!("config/copies/{domain}.yaml"), copy);
    }
    folder
}

/// A server with these rules and this section `[rls]`.
fn serve(folder: &Folder, rules: &str, section: &str, flags: &[&str]) -> Server {
    let settings = format!("[rls]\ndebug = \"127.0.0.1:0\"\npaths = [\"{}\"]\n{section}", folder.path(rules));
    let config = folder.write("a.toml", settings);
    Server::with(&[&["--config", &config], flags].concat())
}

/// Runs a set of cases against a server; nothing to do without an interpreter that has the clients.
fn ask(set: &str, server: &Server, more: &[&str]) {
    let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
        eprintln!("{set}: not run; `cargo xtask test` fetches the Python clients");
        return;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = here.join("tests/it/rls/python/run.py");
    let proto = here.join("../../proto");
    let [grpc, http, debug] = ["grpc", "http", "debug"].map(|name| server.address(name).to_string());
    let args = ["-B", script.to_str().unwrap(), set, proto.to_str().unwrap(), &grpc, &http, &debug];
    let said = run(&python, &[&args[..], more].concat());
    assert_eq!(said.lines().last(), Some("ok"), "{said}");
}

#[test]
fn the_cases_in_memory() {
    let folder = fixtures();
    let server = serve(&folder, "config", "response_dynamic_metadata = true\n", &[]);
    ask("plain", &server, &[]);
}

#[test]
fn the_cases_on_redis() {
    for redis in Redis::each() {
        let folder = fixtures();
        let flags = ["--store", &redis.url()];
        let server = serve(&folder, "config", "response_dynamic_metadata = true\n", &flags);
        ask("plain", &server, &[]);
    }
}

#[test]
fn several_files_of_one_domain() {
    let folder = Folder::new("rls-merged");
    std::fs::create_dir(folder.path("config")).unwrap();
    let file = |key: u8, count: u8| {
        format!(
            "domain: merged\ndescriptors:\n  - {{key: key{key}, value: value{key}, \
             rate_limit: {{unit: minute, requests_per_unit: {count}}}}}\n"
        )
    };
    folder.write("config/one.yaml", file(1, 10));
    folder.write("config/two.yaml", file(2, 20));
    ask("merged", &serve(&folder, "config", "merge_domains = true\n", &[]), &[]);
}

#[test]
fn refused_hits_that_are_not_counted() {
    let folder = fixtures();
    ask("ignore", &serve(&folder, "config", "over = \"ignore\"\n", &[]), &[]);
    let redis = Redis::redis();
    let flags = ["--store", &redis.url()];
    ask("ignore", &serve(&folder, "config", "over = \"ignore\"\n", &flags), &[]);
}

#[test]
fn header_fields() {
    let folder = fixtures();
    ask("headers", &serve(&folder, "config", "headers = \"plain\"\n", &[]), &[]);
    let names = "headers = { limit = \"X-Most\", remaining = \"X-Left\", reset = \"X-Again\" }\n";
    ask("own-headers", &serve(&folder, "config", names, &[]), &[]);
}

#[test]
fn global_modes() {
    let folder = fixtures();
    ask("shadow", &serve(&folder, "config", "shadow_mode = true\n", &[]), &[]);
    let section = "quota_mode = true\nresponse_dynamic_metadata = true\n";
    ask("quota", &serve(&folder, "config", section, &[]), &[]);
}

#[test]
fn rules_that_the_go_service_does_not_have() {
    let folder = Folder::new("rls-better");
    folder.write("better.yaml", include_str!("fixtures/better.yaml"));
    ask("better", &serve(&folder, "better.yaml", "", &[]), &[]);
    for redis in Redis::each() {
        ask("better", &serve(&folder, "better.yaml", "", &["--store", &redis.url()]), &[]);
    }
}

#[test]
fn files_that_come_and_go() {
    let folder = fixtures();
    let server = serve(&folder, "config", "", &[]);
    ask("reload", &server, &[&folder.path("config")]);
}

#[test]
fn counters_that_the_go_service_shares() {
    for prefix in ["", "prefix:"] {
        let redis = Redis::redis();
        let folder = Folder::new("rls-layout");
        folder.write("layout.yaml", LAYOUT);
        let section = format!("redis_layout = \"envoyproxy\"\ncache_key_prefix = \"{prefix}\"\n");
        let server = serve(&folder, "layout.yaml", &section, &["--store", &redis.url()]);
        ask("layout", &server, &[&redis.port().to_string(), prefix]);
    }
}

#[test]
fn nothing_loaded_yet() {
    let folder = Folder::new("rls-unloaded");
    folder.write("wrong.yaml", "domain: modes\ndescriptors: [{key: k, rate_limit: {unit: eon}}]\n");
    ask("unloaded", &serve(&folder, "wrong.yaml", "", &[]), &[]);
}

#[test]
fn a_store_that_is_away() {
    let folder = fixtures();
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    ask("storeless", &serve(&folder, "config", "", &["--store", &nowhere]), &[]);
}
