//! The rate limit service of Envoy over HTTP: its answers, its pages, and files that change.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::wire::http::{Received, curl, get, post};
use test_support::server::{Folder, Server, until};

/// Two a year for a user, one a year for bob: no window ends while a test runs.
const EDGE: &str = "\
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: user
    value: bob
    rate_limit: {unit: year, requests_per_unit: 1, name: bobs}
";

fn asked(domain: &str, value: &str) -> Value {
    json!({ "domain": domain, "descriptors": [{ "entries": [{ "key": "user", "value": value }] }] })
}

fn ask(server: &Server, domain: &str, value: &str) -> Received {
    post(server, "/json", &asked(domain, value))
}

/// What a counter of the service says.
fn stat(server: &Server, name: &str) -> u64 {
    let page = get(server, "/stats").body;
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("ratelimit.service.{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}

fn rules(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    fs::create_dir(folder.path("rules")).unwrap();
    folder.write("rules/edge.yaml", EDGE);
    let rules = folder.path("rules");
    (folder, rules)
}

#[test]
fn json_answers_by_its_status() {
    let (_folder, rules) = rules("rls-json");
    let server = Server::with(&["--rls", &rules]);
    let within = ask(&server, "edge", "bob");
    assert_eq!((within.status, within.header("content-type")), (200, Some("application/json")));
    let status = &within.json()["statuses"][0];
    assert_eq!(status["currentLimit"], json!({ "requestsPerUnit": 1, "unit": "YEAR", "name": "bobs" }));
    assert!(status.get("limitRemaining").is_none(), "0 is left out: {status}");
    let over = ask(&server, "edge", "bob");
    assert_eq!((over.status, over.json()["overallCode"].clone()), (429, json!("OVER_LIMIT")));
    assert_eq!(over.header("content-type"), Some("application/json"));
    // No rule at all, whatever the domain.
    assert_eq!(
        ask(&server, "other", "bob").json(),
        json!({ "overallCode": "OK", "statuses": [{ "code": "OK" }] })
    );
    // As curl sends it unless told otherwise, and by any method.
    let body = asked("edge", "ann").to_string();
    assert_eq!(curl(&server, "/json", &[], Some(&body)).status, 200);
    assert_eq!(curl(&server, "/json", &["-X", "GET"], Some(&body)).status, 200);
    assert_eq!(curl(&server, "/json", &["-X", "PUT"], Some(&body)).status, 429);
}

#[test]
fn json_that_cannot_be_answered_is_400() {
    let (_folder, rules) = rules("rls-mistakes");
    let server = Server::with(&["--rls", &rules]);
    let problem = |body: &str| curl(&server, "/json", &[], Some(body)).problem();
    for body in ["", "}", "[]", r#"{"domian":"edge"}"#, r#"{"descriptors":[{"entries":[{"key":1}]}]}"#] {
        assert_eq!(problem(body), (400, "malformed_json".to_owned(), Value::Null), "{body}");
    }
    for body in ["{}", r#"{"domain":"edge"}"#, r#"{"domain":"","descriptors":[{}]}"#] {
        assert_eq!(problem(body), (400, "invalid_request".to_owned(), Value::Null), "{body}");
    }
    let many = json!({ "domain": "edge", "descriptors": vec![json!({}); 257] });
    assert_eq!(problem(&many.to_string()).1, "invalid_request");
    let long = asked("edge", &"x".repeat(2 * 1024 * 1024)).to_string();
    assert_eq!(problem(&long).0, 413);
    // Half of that is still a request.
    let long = asked("edge", &"x".repeat(512 * 1024)).to_string();
    assert_eq!(curl(&server, "/json", &[], Some(&long)).status, 200);
    assert_eq!(stat(&server, "call.should_rate_limit.service_error"), 4);
}

#[test]
fn without_files_there_is_no_service() {
    let server = Server::start();
    for path in
        ["/json", "/healthcheck", "/rlconfig", "/v1/rls/config", "/stats", "/v1/rls/explain", "/v1/rls/reset"]
    {
        assert_eq!(get(&server, path).problem().1, "not_found", "{path}");
        assert_eq!(post(&server, path, &asked("edge", "bob")).status, 404, "{path}");
    }
}

/// Case 38.
#[test]
fn files_that_come_and_go_are_followed() {
    let (folder, rules) = rules("rls-reload");
    let server = Server::with(&["--rls", &rules]);
    let limit = |domain: &str| ask(&server, domain, "x").json()["statuses"][0]["currentLimit"].clone();
    assert_eq!((limit("reload"), stat(&server, "config_load_success")), (Value::Null, 1));
    // Without a signal, the server notices by itself.
    folder.write("rules/reload.yaml", EDGE.replace("edge", "reload").replace("per_unit: 2", "per_unit: 50"));
    until("the file is noticed", || stat(&server, "config_load_success") == 2);
    assert_eq!(limit("reload")["requestsPerUnit"], 50);
    fs::remove_file(folder.path("rules/reload.yaml")).unwrap();
    until("its end is noticed", || stat(&server, "config_load_success") == 3);
    assert_eq!(limit("reload"), Value::Null);
    // A file that is wrong changes nothing, in whatever file it is.
    assert_eq!(ask(&server, "edge", "ann").status, 200);
    folder.write(
        "rules/wrong.yaml",
        "domain: wrong\ndescriptors:\n  - key: a\n    rate_limit: {unit: foo}\n  - value: b\n",
    );
    for (line, expected) in [(4, "invalid rate limit unit 'foo'"), (5, "descriptor has empty key")] {
        let said = server.await_log(expected);
        assert!(said.contains("ERROR") && said.contains(&format!("{rules}/wrong.yaml:{line}: ")), "{said}");
    }
    server.await_log("limits not loaded, the old ones stay");
    assert_eq!((stat(&server, "config_load_error"), stat(&server, "config_load_success")), (1, 3));
    assert_eq!(ask(&server, "edge", "ann").status, 200, "the second of two");
    assert_eq!(ask(&server, "edge", "ann").status, 429);
    // After a signal, it is logged again at once.
    server.signal("HUP");
    server.await_log("limits not loaded, the old ones stay");
    assert_eq!(stat(&server, "config_load_error"), 2);
    folder.write("rules/wrong.yaml", "domain: wrong\n");
    server.signal("HUP");
    let said = server.await_log("limits loaded");
    assert!(said.contains("files=2") && said.contains("domains=2") && said.contains("rules=2"), "{said}");
    assert_eq!(ask(&server, "edge", "ann").status, 429, "a reload refills nothing");
    server.signal("HUP");
    server.await_log("limits are unchanged");
    assert_eq!(stat(&server, "config_load_success"), 4);
}

/// How Kubernetes mounts a ConfigMap, and exchanges it.
#[cfg(unix)]
#[test]
fn a_config_map_is_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("rls-config-map");
    for (version, count) in [("..1", 5), ("..2", 7)] {
        fs::create_dir(folder.path(version)).unwrap();
        folder.write(
            &format!("{version}/edge.yaml"),
            EDGE.replace("per_unit: 2", &format!("per_unit: {count}")),
        );
    }
    symlink("..1", folder.path("..data")).unwrap();
    symlink(Path::new("..data/edge.yaml"), folder.path("edge.yaml")).unwrap();
    let server = Server::with(&["--rls", &folder.path("")]);
    let limit = || ask(&server, "edge", "x").json()["statuses"][0]["currentLimit"]["requestsPerUnit"].clone();
    assert_eq!(limit(), 5);
    symlink("..2", folder.path("..next")).unwrap();
    fs::rename(folder.path("..next"), folder.path("..data")).unwrap();
    until("the new version is in force", || limit() == 7);
    assert_eq!(stat(&server, "config_load_error"), 0);
}

#[test]
fn a_first_load_that_fails_is_made_good_later() {
    let folder = Folder::new("rls-first");
    let path = folder.path("edge.yaml");
    let server = Server::with(&["--rls", &path]);
    server.await_log("limits not loaded, requests are errors until they are right");
    let refused = ask(&server, "edge", "bob");
    assert_eq!(refused.problem().0, 400);
    assert_eq!(refused.json()["detail"], "no rate limit configuration loaded");
    assert_eq!((get(&server, "/rlconfig").status, get(&server, "/rlconfig").body.as_str()), (200, ""));
    folder.write("edge.yaml", EDGE);
    until("it is loaded", || ask(&server, "edge", "carl").status == 200);
    assert_eq!((stat(&server, "config_load_error"), stat(&server, "config_load_success")), (1, 1));
}

/// Plans of the TOML file are reloaded on their own, and rules that name them follow.
#[test]
fn rules_follow_the_plans_that_they_name() {
    let folder = Folder::new("rls-plans");
    let rules =
        folder.write("edge.yaml", "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {plan: gold}}\n");
    let plans = |limit: &str| format!("[rls]\npaths = [\"{rules}\"]\n[plans.{limit}\n");
    let config = folder.write("a.toml", plans("gold]\nlimits = [\"3/h fixed grid\"]"));
    let server = Server::with(&["--config", &config]);
    let status = |user: &str| ask(&server, "edge", user).json()["statuses"][0].clone();
    assert_eq!(status("a")["currentLimit"]["requestsPerUnit"], 3);
    folder.write("a.toml", plans("gold]\nlimits = [\"9/h fixed grid\"]"));
    server.signal("HUP");
    server.await_log("plans reloaded");
    assert_eq!(status("a")["currentLimit"]["requestsPerUnit"], 9);
    // When a plan is removed, the log names the rule that needs it.
    folder.write("a.toml", plans("lead]\nlimits = [\"9/h\"]"));
    server.signal("HUP");
    let said = server.await_log("there is no such plan");
    assert!(
        said.contains("edge.yaml:3: ") && said.contains("requests that find this rule are errors"),
        "{said}"
    );
    assert_eq!(ask(&server, "edge", "a").problem().0, 503);
    // New rules wait for their plan, which is read from another file.
    folder.write("edge.yaml", "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {plan: tin}}\n");
    server.await_log("limits not loaded, the old ones stay");
    folder.write("a.toml", plans("tin]\nlimits = [\"4/h\"]"));
    server.await_log("limits loaded");
    assert_eq!(status("b")["currentLimit"]["requestsPerUnit"], 4);
}

#[test]
fn what_there_is_to_look_at() {
    let (folder, rules) = rules("rls-look");
    let config = folder.write("a.toml", format!("[rls]\npaths = [\"{rules}\"]\ndebug = \"127.0.0.1:0\"\n"));
    let server = Server::with(&["--config", &config]);
    assert_eq!(ask(&server, "edge", "bob").status, 200);
    let listing = "edge.user: unit=YEAR requests_per_unit=2, shadow_mode: false, quota_mode: false\n\
                   edge.user_bob: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n";
    for path in ["/rlconfig", "/v1/rls/config"] {
        let page = get(&server, path);
        assert_eq!((page.status, page.body.as_str()), (200, listing));
        assert_eq!(page.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    let debug = |path: &str| {
        let url = format!("http://{}{path}", server.address("debug"));
        let out = std::process::Command::new("curl")
            .args(["-sS", "--max-time", "120", "-w", "%{http_code}", &url])
            .output();
        String::from_utf8(out.unwrap().stdout).unwrap()
    };
    assert_eq!(debug("/rlconfig"), format!("{listing}200"));
    assert_eq!(debug("/healthcheck"), "OK200");
    assert!(debug("/stats").contains("\nratelimit.service.rate_limit.edge.user_bob.total_hits: 1\n"));
    assert!(debug("/").starts_with("/healthcheck: "), "{}", debug("/"));
    for elsewhere in ["/json", "/metrics", "/throttle", "/v1/rls/reset", "/v1/plans", "/ready"] {
        assert!(debug(elsewhere).ends_with("404"), "{elsewhere}: {}", debug(elsewhere));
    }
    assert_eq!(curl(&server, "/rlconfig", &["-X", "POST"], None).problem().1, "method_not_allowed");
}

#[test]
fn who_is_found_is_explained_and_forgotten() {
    let (_folder, rules) = rules("rls-explain");
    let server = Server::with(&["--rls", &rules]);
    let explained = || post(&server, "/v1/rls/explain", &asked("edge", "bob")).json();
    let fresh = explained();
    assert_eq!(fresh["overall_code"], "OK");
    let first = &fresh["descriptors"][0];
    assert_eq!(first["found"]["rule"]["stat_key"], "edge.user_bob");
    assert_eq!(
        (&first["found"]["rule"]["line"], &first["status"]["limit_remaining"]),
        (&json!(7), &json!(1))
    );
    assert_eq!(ask(&server, "edge", "bob").status, 200);
    assert_eq!(explained()["descriptors"][0]["status"]["limit_remaining"], 0);
    assert_eq!(ask(&server, "edge", "bob").status, 429);
    let none = post(&server, "/v1/rls/explain", &asked("egde", "bob")).json();
    assert!(
        none["descriptors"][0]["found"]["why_none"].as_str().unwrap().contains("no domain 'egde'"),
        "{none}"
    );
    assert_eq!(stat(&server, "rate_limit.edge.user_bob.total_hits"), 2, "a look is not counted");
    let forgotten = post(&server, "/v1/rls/reset", &asked("edge", "bob"));
    assert_eq!((forgotten.status, forgotten.json()), (200, json!({ "forgotten": 1 })));
    assert_eq!(ask(&server, "edge", "bob").status, 200);
    assert_eq!(get(&server, "/v1/rls/reset").problem().1, "method_not_allowed");
    assert_eq!(post(&server, "/v1/rls/explain", &json!({})).problem().1, "invalid_request");
}

#[test]
fn all_but_the_probe_need_the_token() {
    let (_folder, rules) = rules("rls-token");
    let server = Server::with(&["--rls", &rules, "--auth-token", "sesame"]);
    assert_eq!(get(&server, "/healthcheck").body, "OK");
    for path in ["/json", "/rlconfig", "/stats", "/v1/rls/config"] {
        assert_eq!(get(&server, path).status, 401, "{path}");
        let welcome = curl(&server, path, &["-H", "authorization: Bearer sesame"], None);
        assert_ne!(welcome.status, 401, "{path}");
    }
}

#[test]
fn files_may_be_named_by_the_environment() {
    let (folder, rules) = rules("rls-environment");
    let other = folder.write("other.yaml", EDGE.replace("edge", "other"));
    let mut command = test_support::server::ratekeeper(&["serve", "--loops", "1", "--http", "127.0.0.1:0"]);
    command.args(["--resp", "off", "--grpc", "off", "--msgpack", "off"]);
    let server = Server::spawn(command.env("RATEKEEPER_RLS", format!("{rules},{other}")));
    assert_eq!(get(&server, "/v1/rls/config").body.lines().count(), 4);
}
