//! Files: settings, plans that change under a running server, state that outlives it.

use test_support::server::{Folder, Server, TRANSPORTS, ratekeeper, until};

const PLANS: &str = r#"
[limits]
default_burst = 10
default_rate = 100
default_period = 3600
[plans.gold]
limits = ["burst = 2/h", "daily = 100/day"]
[plans.api]
limits = ["3/h"]
"#;

fn file() -> String {
    format!("{TRANSPORTS}{PLANS}")
}

#[test]
fn limits_fill_in_what_a_request_leaves_out() {
    let folder = Folder::new("limits");
    let server = Server::of_file(&folder.write("a.toml", file()));
    assert_eq!(server.ask("THROTTLE k"), "1 10 9 36 0");
    assert!(server.ask("THROTTLE k 20").starts_with("1 20 18 "));
}

#[test]
fn plans_are_acquired_peeked_refunded_and_reset() {
    let folder = Folder::new("plans");
    let server = Server::of_file(&folder.write("a.toml", file()));
    let mut raw = server.connect();
    assert_eq!(raw.ask("PEEK k gold"), "1 2 2 0 0 burst");
    assert_eq!(raw.ask("ACQUIRE k gold"), "1 2 1 0 1800000 burst");
    assert!(raw.ask("ACQUIRE k gold api").starts_with("1 2 0 0 "), "both are charged");
    let denied = raw.ask("ACQUIRE k gold api");
    assert!(denied.starts_with("0 2 0 ") && denied.ends_with(" burst"), "{denied}");
    assert!(raw.ask("PEEK k api").starts_with("1 3 2 "), "a denial by one plan costs nothing in the other");
    assert!(raw.ask("REFUND k gold").starts_with("1 2 1 0 "));
    assert!(raw.ask("ACQUIRE k gold COST 3").starts_with("0 2 1 -1 "), "never");
    assert_eq!(raw.ask("RESET k api"), "1");
    assert_eq!(raw.ask("THROTTLE k 5 1 3600"), "1 5 4 3600 0");
    assert_eq!(raw.ask("RESET k"), "3", "two rules of gold, and the quota that came with a request");
    assert_eq!(raw.ask("RESET k"), "0");
    assert_eq!(raw.ask("ACQUIRE k gold"), "1 2 1 0 1800000 burst");
}

#[test]
fn mistakes_about_plans() {
    let folder = Folder::new("mistakes");
    let server = Server::of_file(&folder.write("a.toml", file()));
    let mut raw = server.connect();
    assert_eq!(raw.ask("ACQUIRE k"), "-ERR wrong number of arguments for 'acquire' command");
    assert_eq!(raw.ask("ACQUIRE k lead"), "-ERR unknown plan 'lead'");
    assert_eq!(raw.ask("ACQUIRE k gold gold"), "-ERR invalid plan: `gold` twice; name each plan once");
    assert_eq!(
        raw.ask("ACQUIRE k gold COST x"),
        "-ERR invalid cost: 'x'; must be a whole number from 0 to 9223372036854775807"
    );
    assert_eq!(raw.ask("PING"), "+PONG");
}

#[test]
fn a_bad_file_ends_with_2_and_one_line_that_names_file_and_line() {
    let folder = Folder::new("bad");
    let path = folder.write("a.toml", "[plans.gold]\nlimits = [\"10/fortnight\"]\n");
    let output = ratekeeper(&["serve", "--config", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.starts_with(&format!("ratekeeper: {path}:2: plan `gold`: ")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let missing = ratekeeper(&["serve", "--config", "no/such/file"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no/such/file: cannot be read"));
}

#[test]
fn a_reload_changes_plans_and_keeps_state() {
    let folder = Folder::new("reload");
    let path = folder.write("a.toml", file());
    let server = Server::of_file(&path);
    assert_eq!(server.ask("ACQUIRE k gold"), "1 2 1 0 1800000 burst");
    folder.write("a.toml", file().replace("burst = 2/h", "burst = 4/h"));
    server.signal("HUP");
    server.await_log("plans reloaded");
    // One was used, of two in an hour: under the new plan it is one of four, until half an hour has passed.
    let ruling = server.ask("PEEK k gold");
    assert!(ruling.starts_with("1 4 ") && !ruling.starts_with("1 4 4 "), "{ruling}");
    // A file that is written without a signal is noticed as well.
    folder.write("a.toml", file().replace("[plans.api]", "[plans.fresh]"));
    until("the new plan is there", || server.ask("PEEK k fresh").starts_with("1 3 3 "));
    assert_eq!(server.ask("PEEK k api"), "-ERR unknown plan 'api'");
    // A mistake changes nothing.
    folder.write("a.toml", "[plans.gold]\nlimits = [\"\"]\n# longer or shorter than before");
    server.signal("HUP");
    server.await_log("the old plans stay");
    assert!(server.ask("PEEK k fresh").starts_with("1 3 3 "));
}

#[test]
fn state_outlives_a_restart() {
    let folder = Folder::new("snapshot");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path];
    let server = Server::with(&flags);
    assert_eq!(server.ask("THROTTLE k 1 1 3600"), "1 1 0 3600 0");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let server = Server::with(&flags);
    assert!(server.ask("THROTTLE k 1 1 3600").starts_with("0 1 0 "), "still used up");
}

#[test]
fn logs_are_objects_if_asked_and_an_open_port_is_warned_about() {
    let mut command = ratekeeper(&[
        "serve",
        "--resp",
        "0.0.0.0:0",
        "--http",
        "off",
        "--grpc",
        "off",
        "--msgpack",
        "off",
        "--log-format",
        "json",
    ]);
    let server = Server::spawn(&mut command);
    let line = server.await_log("without --auth-token");
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&object["level"], &object["transport"]), (&"WARN".into(), &"resp".into()));
}
