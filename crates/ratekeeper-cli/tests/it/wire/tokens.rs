//! Tokens, and the one thing that only an administrator may do: to forget keys by prefix.

use prost::Message;
use serde_json::json;

use crate::wire::http::{Received, get, post, send};
use test_support::proto::{ForgetRequest, ForgetResponse};
use test_support::server::{Folder, Raw, Server, ratekeeper, until};

fn bearing(server: &Server, path: &str, token: &str, body: Option<&str>) -> Received {
    let fields = [("content-type", "application/json"), ("authorization", &*format!("Bearer {token}"))];
    send(server, if body.is_some() { "POST" } else { "GET" }, path, &fields, body)
}

#[test]
fn each_token_opens_its_own_doors() {
    let folder = Folder::new("tokens");
    let file = |name: &str, token: &str| folder.write(name, format!("{token}\n"));
    let (auth, admin, metrics) = (file("auth", "client"), file("admin", "root"), file("metrics", "scrape"));
    let server = Server::with(&[
        "--auth-token-file",
        &auth,
        "--admin-token-file",
        &admin,
        "--metrics-token-file",
        &metrics,
    ]);
    for (token, acquire, scrape, forget) in [
        ("client", 200, 200, 403),
        ("root", 200, 200, 200),
        ("scrape", 401, 200, 401),
        ("clientx", 401, 401, 401),
    ] {
        let ask = json!({ "key": "k", "quota": "9/s" }).to_string();
        assert_eq!(bearing(&server, "/v1/acquire", token, Some(&ask)).status, acquire, "{token}");
        assert_eq!(bearing(&server, "/metrics", token, None).status, scrape, "{token}");
        let prefix = json!({ "prefix": "nobody" }).to_string();
        assert_eq!(bearing(&server, "/v1/forget", token, Some(&prefix)).status, forget, "{token}");
    }
    assert_eq!((get(&server, "/metrics").status, get(&server, "/health").status), (401, 200));
    let mut raw = server.connect();
    assert_eq!(raw.ask("FORGET a"), "-NOAUTH Authentication required.");
    assert!(raw.ask("AUTH scrape").starts_with("-WRONGPASS"));
    assert_eq!(raw.ask("AUTH client"), "+OK");
    let refused = raw.ask("FORGET a");
    assert!(refused.starts_with("-NOPERM FORGET: needs the admin token"), "{refused}");
    assert_eq!(raw.ask("AUTH root"), "+OK");
    assert_eq!(raw.ask("FORGET a"), "0");
    let mut hello = server.connect();
    hello.send("HELLO 2 AUTH default root\r\n");
    assert!(hello.reply().starts_with("server redis"));
    assert_eq!(hello.ask("FORGET a"), "0");
    for (token, expected) in [("client", true), ("root", true), ("scrape", false)] {
        let body = rmp_serde::to_vec(&(2, token)).unwrap();
        let mut raw = Raw::connect(server.address("msgpack"));
        raw.send(u32::try_from(body.len()).unwrap().to_be_bytes()).send(body);
        if expected {
            raw.expect(b"\x00\x00\x00\x07\x96\xc3\x00\x00\x00\x00\x00");
        } else {
            assert_eq!(crate::wire::msgpack::refusal(&mut raw), "wrong token");
        }
    }
    server.signal("TERM");
    let said = server.log_to_the_end().join("\n");
    for token in ["client", "root", "scrape"] {
        assert!(!said.contains(token), "a token was logged: {said}");
    }
}

#[test]
fn without_an_admin_token_keys_are_forgotten_from_this_machine() {
    for flags in [&[][..], &["--auth-token", "client"]] {
        let server = Server::with(&[flags, &["--keep-keys"]].concat());
        let mut raw = server.connect();
        if !flags.is_empty() {
            assert_eq!(raw.ask("AUTH client"), "+OK");
        }
        assert!(raw.ask("THROTTLE k 3 1 3600").starts_with("1 "));
        assert_eq!(raw.ask("FORGET ALL KEYS"), "1");
        let received = bearing(&server, "/v1/forget", "client", Some(r#"{"all":true}"#));
        assert_eq!((received.status, received.json()), (200, json!({ "forgotten": 0 })));
    }
    // Keys are kept only if somebody says so, or there is an admin token.
    let server = Server::start();
    let refused = server.ask("FORGET ALL KEYS");
    assert!(refused.starts_with("-ERR store: ") && refused.contains("keep_keys"), "{refused}");
    let request = ForgetRequest { prefix: b"a".to_vec(), all: false };
    assert_eq!(crate::wire::grpc::asked(&server, "Forget", &request), Err("12".to_owned()));
    assert_eq!(get(&server, "/metrics").status, 200, "as open as ever");
    let server = Server::with(&["--admin-token", "root"]);
    assert_eq!(
        post(
            &server,
            "/throttle",
            &json!({ "key": "k", "max_burst": 1, "count_per_period": 1, "period": 1 })
        )
        .status,
        200
    );
    assert_eq!(server.ask("PING"), "+PONG", "an admin token alone closes nothing else");
    assert_eq!(post(&server, "/v1/forget", &json!({ "prefix": "a" })).status, 401);
    assert_eq!(crate::wire::grpc::asked(&server, "Forget", &request), Err("16".to_owned()));
    let server = Server::with(&["--admin-token", "root", "--keep-keys=false"]);
    let received = bearing(&server, "/v1/forget", "root", Some(r#"{"prefix":"a"}"#));
    assert_eq!((received.status, received.problem().1.as_str()), (501, "unsupported"));
    assert!(received.body.contains("keep_keys"), "{}", received.body);
}

#[test]
fn keys_are_forgotten_by_prefix_on_every_wire() {
    let folder = Folder::new("forget");
    let config = folder.write("a.toml", "[plans.gold]\nlimits = [\"2/h\", \"5/day fixed\"]\n");
    let server = Server::with(&["--config", &config, "--admin-token", "root"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("AUTH root"), "+OK");
    let fill = || {
        let mut raw = server.connect();
        for index in 0..50 {
            assert!(raw.ask(&format!("ACQUIRE user:{index} gold")).starts_with("1 "));
            assert!(raw.ask(&format!("THROTTLE user:{index} 3 1 3600")).starts_with("1 "));
            assert!(raw.ask(&format!("THROTTLE other:{index} 3 1 3600")).starts_with("1 "));
        }
    };
    fill();
    assert_eq!(raw.ask("FORGET user:4"), "33", "4 and 40 to 49, three states each");
    assert_eq!(raw.ask("FORGET nobody"), "0");
    assert_eq!(raw.ask("FORGET user:*"), "0", "no pattern");
    assert!(raw.ask("THROTTLE user:4 3 1 3600").starts_with("1 3 2 "));
    assert!(raw.ask("PEEK user:5 gold").starts_with("1 2 1 "), "the others are as they were");
    for (line, expected) in [
        (
            "FORGET ",
            "-ERR invalid prefix: empty; every key starts with it: send FORGET ALL KEYS if that is meant",
        ),
        ("FORGET a b", "-ERR wrong number of arguments for 'forget' command: send one prefix, or ALL KEYS"),
        ("FORGET", "-ERR wrong number of arguments for 'forget' command"),
    ] {
        assert_eq!(raw.ask(line), expected);
    }
    assert!(raw.ask("COMMAND DOCS forget").contains("ALL KEYS"));
    for body in
        [json!({}), json!({ "prefix": "" }), json!({ "all": false }), json!({ "prefix": "a", "all": true })]
    {
        let received = bearing(&server, "/v1/forget", "root", Some(&body.to_string()));
        assert_eq!(received.problem(), (422, "invalid_field".to_owned(), json!("prefix")), "{body}");
    }
    let received = bearing(&server, "/v1/forget", "root", Some(r#"{"all":"yes"}"#));
    assert_eq!(received.problem(), (422, "invalid_field".to_owned(), json!("all")));
    let received = bearing(&server, "/v1/forget", "root", Some(r#"{"prefix":"other:"}"#));
    assert_eq!((received.status, received.json()), (200, json!({ "forgotten": 50 })));
    let asked =
        |request: ForgetRequest| crate::wire::grpc::asked_with(&server, "Forget", &request, Some("root"));
    assert_eq!(asked(ForgetRequest { prefix: vec![], all: false }), Err("3".to_owned()));
    assert_eq!(asked(ForgetRequest { prefix: b"a".to_vec(), all: true }), Err("3".to_owned()));
    let answer = asked(ForgetRequest { prefix: b"user:1".to_vec(), all: false }).unwrap();
    assert_eq!(ForgetResponse::decode(answer).unwrap().forgotten, 33);
    assert_ne!(raw.ask("FORGET all keys"), "0");
    assert!(get(&server, "/metrics").body.contains("\nratekeeper_keys 0\n"));
    let told = server.await_log("keys were forgotten by prefix");
    assert!(told.contains("forgotten=33") && !told.contains("user:"), "{told}");
    // Others are served meanwhile.
    fill();
    until("it is empty again", || raw.ask("FORGET ALL KEYS") == "0");
}

#[test]
fn mistakes_about_tokens_name_flag_or_file() {
    let folder = Folder::new("tokens-bad");
    let empty = folder.write("empty", "\n");
    let lines = folder.write("lines", "one\ntwo\n");
    let token = folder.write("token", "secret-of-mine\n");
    let missing = folder.path("missing");
    let marked = folder.write("marked", "\u{feff}secret-of-mine\n");
    let blank = folder.write("blank", "secret-of-mine \n");
    let control = folder.write("control", "secret\0-of-mine");
    for (flags, expected) in [
        (&["--admin-token", ""][..], "--admin-token: empty"),
        (&["--admin-token-file", &empty], "--admin-token-file: "),
        (&["--auth-token-file", &lines], "has several lines"),
        (&["--metrics-token-file", &missing], "cannot be read"),
        (&["--auth-token-file", &marked], "has a byte-order mark"),
        (&["--auth-token-file", &blank], "a blank at an end"),
        (&["--auth-token-file", &control], "a control character"),
        (&["--metrics-token", "secret-of-mine", "--admin-token-file", &token], "the same as the admin token"),
        (&["--admin-token", "a", "--admin-token-file", &token], "give one of them"),
        (&["--auth-token", "secret-of-mine", "--admin-token-file", &token], "the same as the auth token"),
        (&["--max-bytes", "1"], "--max-bytes: 1 bytes; must be at least 1048576"),
        (&["--max-bytes", "much"], "256MB"),
        (&["--kept-for-plans", "110%"], "from 0% to 100%"),
    ] {
        let output = ratekeeper(&[&["serve"], flags].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(expected) && !said.contains("secret-of-mine"), "{flags:?}: {said}");
    }
    let config =
        folder.write("a.toml", format!("[server]\nadmin_token = \"a\"\nadmin_token_file = \"{token}\"\n"));
    let output = ratekeeper(&["serve", "--config", &config]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains(":3: [server] admin_token_file: "), "{said}");
    // A flag comes before the file, whichever of both the file has.
    let server = Server::with(&[
        "--config",
        &folder.write("b.toml", "[server]\nauth_token = \"other\"\n"),
        "--auth-token-file",
        &token,
    ]);
    assert_eq!(server.ask("AUTH secret-of-mine"), "+OK");
    // And before the environment.
    let flags = ["serve", "--resp", "127.0.0.1:0", "--http", "off", "--grpc", "off", "--msgpack", "off"];
    let mut command = ratekeeper(&[&flags[..], &["--auth-token-file", &token]].concat());
    let server = Server::spawn(command.env("RATEKEEPER_AUTH_TOKEN", "other"));
    assert_eq!(server.ask("AUTH secret-of-mine"), "+OK");
    let mut command = ratekeeper(&[&flags[..], &["--auth-token", "third"]].concat());
    let server = Server::spawn(command.env("RATEKEEPER_AUTH_TOKEN_FILE", &token));
    assert_eq!(server.ask("AUTH third"), "+OK");
}
