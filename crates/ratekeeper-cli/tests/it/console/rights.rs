//! Who may ask, and who may change what keys have used, over every transport.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;

use crate::console::web::{get, send};
use crate::console::wires::{EVERYWHERE, TRANSPORTS, VERBS, ask, call, outward};
use test_support::server::{Folder, Server};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PLANS: &str = "[plans.gold]\nlimits = [\"9/h\"]\n";

/// Starts each way in which a transport says no.
fn refusal(transport: &str, unknown: bool) -> &'static str {
    match (transport, unknown) {
        ("resp", true) => "-NOAUTH",
        ("resp", false) => "-NOPERM",
        ("http", true) => "unauthorized",
        ("http", false) => "admin_required",
        ("grpc", true) => "16",
        ("grpc", false) => "7",
        (_, true) => "authentication required",
        (_, false) => "",
    }
}

#[test]
fn what_changes_keys_needs_the_admin_token_on_every_transport() {
    let folder = Folder::new("rights");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config, "--auth-token", "client", "--admin-token", "root"]);
    for transport in TRANSPORTS {
        for verb in VERBS {
            assert_eq!(ask(&server, HERE, transport, verb, Some("root")), Ok(()), "{transport} {verb}");
            let said = ask(&server, HERE, transport, verb, Some("client")).unwrap_err();
            assert!(said.starts_with(refusal(transport, false)), "{transport} {verb}: {said}");
            if transport == "resp" || transport == "msgpack" {
                assert!(said.contains("needs the admin token"), "{said}");
            }
            let said = ask(&server, HERE, transport, verb, None).unwrap_err();
            assert!(said.starts_with(refusal(transport, true)), "{transport} {verb}: {said}");
        }
    }
    // Asking is everybody's who may ask.
    let mut raw = server.connect();
    assert_eq!(raw.ask("AUTH client"), "+OK");
    for line in ["ACQUIRE k gold", "PEEK k gold", "THROTTLE t 3 1 60", "CL.THROTTLE c 3 1 60 1"] {
        assert!(!raw.ask(line).starts_with('-'), "{line}");
    }
    let refused = raw.ask("CL.THROTTLE c 3 1 60 -1");
    assert!(
        refused.starts_with("-NOPERM REFUND: needs the admin token"),
        "a negative quantity gives back: {refused}"
    );
    assert_eq!(raw.ask("AUTH root"), "+OK");
    assert!(!raw.ask("CL.THROTTLE c 3 1 60 -1").starts_with('-'));
    // In a transaction, too.
    assert_eq!(raw.ask("AUTH client"), "+OK");
    assert_eq!((raw.ask("MULTI"), raw.ask("RESET k gold")), ("+OK".to_owned(), "+QUEUED".to_owned()));
    assert!(raw.ask("EXEC").starts_with("-NOPERM RESET"));
}

#[test]
fn an_admin_token_alone_closes_nothing_but_what_is_the_administrators() {
    let folder = Folder::new("rights-admin");
    let config = folder.write("a.toml", PLANS);
    let server = Server::with(&["--config", &config, "--admin-token", "root"]);
    for transport in TRANSPORTS {
        assert_eq!(ask(&server, HERE, transport, "reset", Some("root")), Ok(()), "{transport}");
        assert!(
            ask(&server, HERE, transport, "reset", None).is_err(),
            "{transport}: not even from this machine"
        );
        assert!(ask(&server, HERE, transport, "reset", Some("guess")).is_err(), "{transport}");
    }
    assert!(server.ask("ACQUIRE k gold").starts_with("1 "));
    assert_eq!(get(&server, "/v1/stats").json()["rights"]["admin"], false);
    let bearer = [("authorization", "Bearer root")];
    let stats = send(server.address("http"), "GET", "/v1/stats", &bearer, None);
    assert_eq!(stats.json()["rights"]["admin"], true);
    // A token that is wrong is told, though none is needed to look.
    let wrong = send(server.address("http"), "GET", "/v1/stats", &[("authorization", "Bearer rot")], None);
    assert_eq!(wrong.problem(), (401, "unauthorized".to_owned()));
    // Who shows the token may use any name, also where no token is needed.
    let body = json!({ "key": "k", "plan": "gold" }).to_string();
    let json = ("content-type", "application/json");
    let named = [json, ("host", "limits.internal")];
    let address = server.address("http");
    let reply = send(address, "POST", "/v1/acquire", &named, Some(&body));
    assert_eq!(reply.problem(), (421, "wrong_host".to_owned()));
    let proved = [json, ("host", "limits.internal"), bearer[0]];
    assert_eq!(send(address, "POST", "/v1/acquire", &proved, Some(&body)).status, 200);
}

#[test]
fn keys_in_metrics_are_for_administrators_and_scrapers() {
    let tells = |server: &Server, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let fields: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let reply = send(server.address("http"), "GET", "/metrics", &fields, None);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.body.contains("ratekeeper_requests_total"), "{}", reply.body);
        reply.body.contains("ratekeeper_top_denied{key=\"often\"")
    };
    let deny = |server: &Server, token: Option<&str>| {
        let mut raw = server.connect();
        if let Some(token) = token {
            assert_eq!(raw.ask(&format!("AUTH {token}")), "+OK");
        }
        (0..3).for_each(|_| drop(raw.ask("THROTTLE often 1 1 3600")));
    };
    let all = ["--auth-token", "client", "--admin-token", "root", "--metrics-token", "scrape"];
    let server = Server::with(&[&["--top-denied", "3"], &all[..]].concat());
    deny(&server, Some("client"));
    let told = ["client", "root", "scrape"].map(|token| tells(&server, Some(token)));
    assert_eq!(told, [false, true, true]);
    let open = Server::with(&[&["--top-denied", "3", "--open-metrics"], &all[..4]].concat());
    deny(&open, Some("client"));
    assert_eq!([None, Some("client"), Some("root")].map(|token| tells(&open, token)), [false, false, true]);
    let local = Server::with(&["--top-denied", "3"]);
    deny(&local, None);
    assert!(tells(&local, None), "without an admin token, whoever is on this machine is one");
}

#[test]
fn without_an_admin_token_keys_are_changed_from_this_machine_only() {
    let folder = Folder::new("rights-local");
    let config = folder.write("a.toml", PLANS);
    for token in [None, Some("client")] {
        let flags = token.map_or(vec![], |token| vec!["--auth-token", token]);
        let server = Server::with(&[&["--config", &config], &EVERYWHERE[..], &flags[..]].concat());
        for transport in TRANSPORTS {
            for verb in VERBS {
                assert_eq!(ask(&server, HERE, transport, verb, token), Ok(()), "{transport} {verb}");
            }
        }
        // A proxy on this machine passes on what somebody else asks.
        let bearer = token.map(|token| format!("Bearer {token}"));
        for field in ["x-forwarded-for", "forwarded", "via", "x-real-ip"] {
            let mut fields = vec![("content-type", "application/json"), (field, "203.0.113.7")];
            fields.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
            let body = json!({ "key": "k", "plan": "gold" }).to_string();
            let address = (HERE, server.address("http").port()).into();
            let reply = send(address, "POST", "/v1/reset", &fields, Some(&body));
            assert_eq!(reply.problem(), (403, "admin_disabled".to_owned()), "{field}");
            let mut fields = vec![(field, "203.0.113.7".to_owned())];
            fields.extend(bearer.clone().map(|bearer| ("authorization", bearer)));
            let address = (HERE, server.address("grpc").port()).into();
            assert_eq!(call(address, "Reset", b"\x0a\x01k", &fields), Err("7".to_owned()), "{field}");
        }
        let elsewhere = outward();
        for transport in TRANSPORTS {
            for verb in VERBS {
                let said = ask(&server, elsewhere, transport, verb, token).unwrap_err();
                match transport {
                    "http" => assert_eq!(said, "admin_disabled", "{verb}"),
                    "grpc" => assert_eq!(said, "7", "{verb}"),
                    _ => assert!(
                        said.contains("from this machine only") && said.contains("--admin-token"),
                        "{said}"
                    ),
                }
            }
        }
        let mut raw = test_support::server::Raw::connect((elsewhere, server.address("resp").port()).into());
        if let Some(token) = token {
            assert_eq!(raw.ask(&format!("AUTH {token}")), "+OK");
        }
        assert!(raw.ask("ACQUIRE k gold").starts_with("1 "), "asking is asking, from wherever");
        assert!(raw.ask("FORGET ALL KEYS").starts_with("-NOPERM FORGET: from this machine only"));
    }
}

#[test]
fn metrics_have_a_token_or_are_open_by_choice() {
    for (flags, open, theirs) in [
        (&["--auth-token", "client"][..], 401, 401),
        (&["--auth-token", "client", "--open-metrics"], 200, 200),
        (&["--auth-token", "client", "--metrics-token", "scrape"], 401, 200),
        (&["--metrics-token", "scrape"], 401, 200),
        (&[], 200, 200),
    ] {
        let server = Server::with(flags);
        let address = server.address("http");
        assert_eq!(get(&server, "/metrics").status, open, "{flags:?}");
        let bearer = [("authorization", "Bearer scrape")];
        assert_eq!(send(address, "GET", "/metrics", &bearer, None).status, theirs, "{flags:?}");
        // It opens nothing else.
        let needs_token = flags.contains(&"--auth-token");
        for path in ["/v1/stats", "/v1/history", "/v1/events", "/v1/plans", "/v1/keys/k", "/v1/stats/stream"]
        {
            if needs_token {
                assert_eq!(send(address, "GET", path, &bearer, None).status, 401, "{flags:?} {path}");
            }
        }
        assert_eq!(get(&server, "/").status, 200, "the page holds nothing");
    }
}
