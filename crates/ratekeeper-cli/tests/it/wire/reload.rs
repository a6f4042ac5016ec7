//! A configuration file that changes while the server runs: a wrong file changes nothing, and the log tells what changed.

use std::fs;

use crate::wire::http::get;
use test_support::server::{Folder, Server, TRANSPORTS, until};

const GOLD: &str = "[plans.gold]\nlimits = [\"a = 5/h\"]\n";
const LEAD: &str = "[plans.lead]\nlimits = [\"a = 5/h\"]\n";

fn metric(server: &Server, name: &str) -> Option<u64> {
    let page = get(server, "/metrics").body;
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_file_that_says_nothing_or_something_wrong_changes_nothing() {
    let folder = Folder::new("reload-nothing");
    let good = format!("{TRANSPORTS}{GOLD}");
    let path = folder.write("a.toml", &good);
    let server = Server::of_file(&path);
    assert_eq!(server.ask("ACQUIRE k gold"), "1 5 4 0 720000 a");
    let line = good.lines().count() + 2;
    let wrong = |more: &str| format!("{good}{more}");
    let cases = [
        (String::new(), "the file is empty".to_owned()),
        ("\n \n".to_owned(), "the file is empty".to_owned()),
        (TRANSPORTS.to_owned(), "no plan is left in the file".to_owned()),
        (good[..good.len() - 8].to_owned(), format!("{path}:{}: ", line - 2)),
        // What no plan says, but a start would refuse.
        (wrong("[limits]\ndefault_burst = 0\n"), format!("{path}:{line}: [limits] default_burst: 0;")),
        (wrong("[store]\nurl = \"redsi://h\"\n"), format!("{path}:{line}: [store] url: scheme: redsi;")),
        (wrong("[store]\ntype = \"tape\"\n"), format!("{path}:{line}: [store] type: tape: not a store;")),
        (wrong("[server]\ntop_denied = 1001\n"), format!("{path}:{line}: [server] top_denied: 1001;")),
        (wrong("[server]\ntls_cert = \"a.pem\"\n"), "--tls-cert without --tls-key".to_owned()),
    ];
    let failures = || metric(&server, "ratekeeper_reloads_total{result=\"error\"}").unwrap();
    for (text, expected) in cases {
        let before = failures();
        folder.write("a.toml", &text);
        server.signal("HUP");
        let said = server.await_log(&expected);
        assert!(said.contains("ERROR") && said.contains("the old plans stay"), "{said}");
        until("it is counted", || failures() > before);
        assert!(server.ask("PEEK k gold").starts_with("1 5 4 "), "after {text:?}");
    }
    assert_eq!(metric(&server, "ratekeeper_reload_last_successful"), Some(0));
    assert_eq!(get(&server, "/health").json()["config"], "reload_failed");
    fs::remove_file(&path).unwrap();
    server.await_log("cannot be read");
    assert!(server.ask("PEEK k gold").starts_with("1 5 4 "));
    folder.write("a.toml", &good);
    server.await_log("plans reloaded");
    assert_eq!(metric(&server, "ratekeeper_reload_last_successful"), Some(1));
    assert_eq!(metric(&server, "ratekeeper_reloads_total{result=\"success\"}"), Some(1));
    assert_eq!(get(&server, "/health").json()["config"], "ok");
    assert!(server.ask("PEEK k gold").starts_with("1 5 4 "), "and nothing was refilled");
}

/// What only a start uses may be away meanwhile.
#[test]
fn a_reload_needs_neither_token_files_nor_name_servers() {
    let folder = Folder::new("reload-elsewhere");
    let token = folder.write("token", "sesame\n");
    let head = format!("{TRANSPORTS}[server]\nmetrics_token_file = \"{token}\"\n");
    let path = folder.write("a.toml", format!("{head}{GOLD}"));
    let server = Server::of_file(&path);
    fs::remove_file(&token).unwrap();
    let named = head.replacen("port = 0", "port = 0\nhost = \"no-such-host.invalid\"", 1);
    folder.write("a.toml", format!("{named}{LEAD}"));
    server.signal("HUP");
    let said = server.await_log("needs a restart");
    assert!(said.contains("transports.resp.host"), "{said}");
    server.await_log("plans reloaded");
    assert!(server.ask("PEEK k lead").starts_with("1 5 5 "));
    // A password in the wrong place is not logged.
    folder.write("a.toml", format!("{head}{LEAD}").replacen("port = 0", "host = \"redis://:pa55@h\"", 1));
    server.signal("HUP");
    let said = server.await_log("the old plans stay");
    assert!(said.contains("[transports.resp] host: ") && !said.contains("pa55"), "{said}");
}

/// Without a signal, the server notices by itself.
#[test]
fn an_emptied_file_is_noticed_and_changes_nothing() {
    let folder = Folder::new("reload-emptied");
    let path = folder.write("a.toml", format!("{TRANSPORTS}{GOLD}"));
    let server = Server::of_file(&path);
    folder.write("a.toml", "");
    let said = server.await_log("the old plans stay");
    assert!(said.contains("ERROR") && said.contains(&format!("{path}: the file is empty")), "{said}");
    assert!(server.ask("PEEK k gold").starts_with("1 5 5 "));
}

#[test]
fn a_server_may_start_without_plans_and_get_some() {
    let folder = Folder::new("reload-none");
    let path = folder.write("a.toml", "");
    let server = Server::with(&["--config", &path]);
    assert_eq!(server.ask("PEEK k gold"), "-ERR unknown plan 'gold'");
    folder.write("a.toml", GOLD);
    server.await_log("plans reloaded");
    assert!(server.ask("PEEK k gold").starts_with("1 5 5 "));
}

#[test]
fn a_replacement_of_the_same_length_and_time_is_noticed() {
    let folder = Folder::new("reload-same");
    let path = folder.write("a.toml", format!("{TRANSPORTS}{GOLD}"));
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let server = Server::of_file(&path);
    let other = folder.write("b.toml", format!("{TRANSPORTS}{LEAD}"));
    fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    fs::rename(&other, &path).unwrap();
    server.await_log("plans reloaded");
    assert!(server.ask("PEEK k lead").starts_with("1 5 5 "));
    assert_eq!(server.ask("PEEK k gold"), "-ERR unknown plan 'gold'");
}

#[test]
fn what_changes_is_told_and_so_is_what_refills() {
    let folder = Folder::new("reload-told");
    let plans = "[plans.gone]\nlimits = [\"1/s\"]\n";
    let path = folder.write("a.toml", format!("{TRANSPORTS}{GOLD}{plans}"));
    let server = Server::of_file(&path);
    assert_eq!(server.ask("ACQUIRE k gold"), "1 5 4 0 720000 a");
    let fixed = GOLD.replace("5/h", "5/h fixed");
    let text = format!("{TRANSPORTS}{fixed}[plans.fresh]\nlimits = [\"1/s\"]\n");
    folder.write("a.toml", text.replace("[transports.http]\nport = 0", "[transports.http]\nport = 8081"));
    server.signal("HUP");
    for (level, expected) in [
        ("WARN", "plans removed: requests that name them are refused plans=\"gone\""),
        ("INFO", "plans added plans=\"fresh\""),
        ("INFO", "plans changed plans=\"gold\""),
        ("WARN", "its states start fresh"),
        ("WARN", "changed in the file, needs a restart settings=\"transports.http.port\""),
        ("INFO", "plans reloaded plans=2 added=1 removed=1 changed=1"),
    ] {
        let said = server.await_log(expected);
        assert!(said.contains(level), "{said}");
        if expected == "its states start fresh" {
            assert!(said.ends_with("plan=\"gold\" rule=\"a\" was=\"5/h\" now=\"5/h fixed\""), "{said}");
        }
    }
    assert_eq!(server.ask("PEEK k gold"), "1 5 5 0 0 a", "it starts fresh, as it says");
}
