//! `check --rls`: every mistake of every file with its line, and what a descriptor finds.

use serde_json::json;

use crate::cli::support::{Folder, run};

const EDGE: &str = "\
domain: edge
descriptors:
  - key: user
    descriptors:
      - key: path
        value: /api*
        rate_limit: {unit: minute, requests_per_unit: 5}
  - key: partner
    rate_limit: {plan: gold}
";

const WRONG: &str = "\
domain: other
descriptors:
  - key: user
    ratelimit: {unit: day}
  - key: path
    rate_limit: {unit: fortnight, requests_per_unit: 1}
";

#[test]
fn every_mistake_of_every_file() {
    let folder = Folder::new("cli");
    let (edge, wrong) = (folder.write("edge.yaml", EDGE), folder.write("wrong.yaml", WRONG));
    let ran = run(&["check", "--rls", &wrong, "--rls", &edge]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let expected = format!(
        "{wrong}:4: config error, unknown key 'ratelimit'\n\
         {wrong}:6: invalid rate limit unit 'fortnight'\n\
         rls: 2 mistakes\n"
    );
    assert_eq!(ran.out, expected);
    let ran = run(&["check", "--json", "--rls", &wrong, "--explain", "other user=bob"]);
    assert_eq!(ran.code, 1);
    let object: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["rls"]["ok"], false);
    let first = json!({ "file": wrong, "line": 4, "message": "config error, unknown key 'ratelimit'" });
    assert_eq!(object["rls"]["errors"][0], first);
}

#[test]
fn what_a_descriptor_finds() {
    let folder = Folder::new("cli");
    let edge = folder.write("edge.yaml", EDGE);
    let asked = ["--explain", "edge user=bob,path=/api/x", "--explain", "edge user=bob"];
    let said = run(&[&["check", "--rls", &edge][..], &asked].concat()).ok();
    let expected = format!(
        "\
{edge}:9: warning: plan: `gold`; not checked; name the configuration file that has it: ratekeeper check FILE --rls PATH
domain edge
  user=bob     by the key, which has no value in the file; no limit here
  path=/api/x  by the pattern '/api*'; has a limit
limit: 5/m fixed grid, over: count, on_store_error: error ({edge}:7)
counter: edge|user=bob|path=/api/x
counted as: edge.user.path_/api*
domain edge
  user=bob  by the key, which has no value in the file; no limit here
no rule: what it ends at has no rate_limit: limits may sit deeper, at 'path'
rls: ok, 1 file, 1 domain, 2 limits
"
    );
    assert_eq!(said, expected);
    let object = run(&[&["check", "--json", "--rls", &edge][..], &asked].concat()).json();
    assert_eq!(object["rls"]["explanations"][0]["rule"]["stat_key"], "edge.user.path_/api*");
    assert_eq!(object["rls"]["explanations"][1]["rule"], json!(null));
    assert_eq!((&object["rls"]["domains"], &object["rls"]["limits"]), (&json!(["edge"]), &json!(2)));
    let said = run(&["check", "--rls", &edge, "--explain", "edge user"]).err;
    assert!(said.contains("`user` is no entry; write `key=value`"), "{said}");
}

#[test]
fn plans_and_settings_come_from_the_configuration_file() {
    let folder = Folder::new("cli");
    let edge = folder.write("edge.yaml", EDGE);
    let toml = |plan: &str, more: &str| {
        format!("[rls]\npaths = [{edge:?}]\n{more}\n[plans.{plan}]\nlimits = [\"5/m\"]\n")
    };
    let good = folder.write("good.toml", toml("gold", "over = \"ignore\""));
    let said = run(&["check", &good, "--explain", "edge user=a,path=/api"]).ok();
    assert!(said.contains("limit: 5/m fixed grid, over: ignore, "), "{said}");
    assert!(
        said.ends_with(&format!("{good}: ok, 1 plan\n"))
            || said.ends_with("rls: ok, 1 file, 1 domain, 2 limits\n")
    );
    let ran = run(&["check", &folder.write("bad.toml", toml("silver", ""))]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains(&format!("{edge}:9: plan: `gold`; there is no such plan\nrls: 1 mistake\n")),
        "{}",
        ran.out
    );
}

#[test]
fn domains_are_merged_if_that_is_asked_for() {
    let folder = Folder::new("cli");
    folder.write("a.yaml", "domain: d\ndescriptors: [{key: a}]\n");
    let path = folder.write("b.yaml", "domain: d\ndescriptors: [{key: b}]\n");
    let whole = path.strip_suffix("/b.yaml").unwrap();
    assert!(run(&["check", "--rls", whole]).out.contains("b.yaml:1: duplicate domain 'd' in config file"));
    assert_eq!(
        run(&["check", "--rls", whole, "--merge-domains"]).ok(),
        "rls: ok, 2 files, 1 domain, 0 limits\n"
    );
}

#[test]
fn calendars_of_time_zones_are_known() {
    let folder = Folder::new("cli");
    let limit = "rate_limit: {unit: month, requests_per_unit: 9, calendar: Europe/Berlin}";
    let path = folder.write("a.yaml", format!("domain: d\ndescriptors: [{{key: a, {limit}}}]\n"));
    let said = run(&["check", "--rls", &path, "--explain", "d a=1"]).ok();
    assert!(said.contains("limit: 9/month fixed calendar Europe/Berlin, over: count"), "{said}");
}

#[test]
fn something_must_be_named() {
    let said = run(&["check"]).err;
    assert!(said.contains("required") && said.contains("<FILE>"), "{said}");
}
