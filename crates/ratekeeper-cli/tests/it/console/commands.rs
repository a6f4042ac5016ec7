//! `ratekeeper top` and `ratekeeper key`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use test_support::server::{Folder, Server, ratekeeper, until};

fn run(args: &[&str]) -> Output {
    ratekeeper(args).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complained(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn top_shows_what_is_decided_once_or_line_by_line() {
    let folder = Folder::new("top");
    let config = folder.write("a.toml", "[plans.free]\nlimits = [\"2/h\"]\n");
    let server = Server::with(&["--config", &config, "--instance", "api-1"]);
    let url = server.address("http").to_string();
    for _ in 0..5 {
        server.ask("ACQUIRE k free");
    }
    until("it is counted", || {
        let output = run(&["top", "--url", &url, "--once", "--json"]);
        let stats: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        stats["plans"][0]["total"] == json!({ "allowed": 2, "denied": 3, "would_deny": 0 })
    });
    let once = run(&["top", "--url", &format!("http://{url}/"), "--once"]);
    assert!(once.status.success(), "{}", complained(&once));
    for part in
        ["ratekeeper api-1  up ", "store memory ok", "/s decided", "plan ", "free ", "transport ", "resp "]
    {
        assert!(said(&once).contains(part), "no {part:?} in\n{}", said(&once));
    }
    assert!(!said(&once).contains('\x1b'), "nothing for a terminal where there is none");
    let mut lines = ratekeeper(&["top", "--url", &url, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(lines.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let stats: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(stats["server"]["name"], "api-1");
    }
    lines.kill().unwrap();
    lines.wait().unwrap();
}

#[test]
fn top_and_key_say_what_is_wrong() {
    let server = Server::with(&["--auth-token", "client"]);
    let url = server.address("http").to_string();
    for command in [&["top", "--once"][..], &["key", "k"]] {
        let refused = run(&[command, &["--url", &url]].concat());
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert!(complained(&refused).contains("The token is wrong or missing"), "{}", complained(&refused));
        let nobody = run(&[command, &["--url", "127.0.0.1:1"]].concat());
        assert_eq!(nobody.status.code(), Some(1), "{command:?}");
        assert!(complained(&nobody).contains("is the server running?"), "{}", complained(&nobody));
        let other = run(&[command, &["--url", &server.address("resp").to_string()]].concat());
        assert_eq!(other.status.code(), Some(1), "{command:?}");
        let both = run(&[command, &["--token", "a", "--token-file", "b"]].concat());
        assert_eq!(both.status.code(), Some(2), "{command:?}");
        let missing = run(&[command, &["--url", &url, "--token-file", "/nowhere/token"]].concat());
        assert_eq!(missing.status.code(), Some(1), "{command:?}");
        assert!(complained(&missing).contains("--token-file: /nowhere/token: cannot be read"));
    }
    assert_eq!(run(&["key", ""]).status.code(), Some(2));
}

/// Returns the address of a server that is none of ours: it gives everybody this answer.
fn somebody_else(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // All of the head: what is not read would reset the connection.
            let head = BufReader::new(&stream).lines().map(Result::unwrap);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn an_answer_of_somebody_else_is_no_success() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n\r\n<html>hello</html>",
        "HTTP/1.1 200 OK\r\n\r\n{\"forgotten\":1,\"server\":{},\"plans\":[",
    ] {
        let url = somebody_else(answer);
        for command in
            [&["top", "--once"][..], &["top", "--once", "--json"], &["key", "k"], &["key", "k", "--reset"]]
        {
            let asked = run(&[command, &["--url", &url]].concat());
            assert_eq!((asked.status.code(), said(&asked)), (Some(1), String::new()), "{command:?} {answer}");
            assert!(complained(&asked).contains("is it a ratekeeper server?"), "{}", complained(&asked));
        }
    }
    // A proxy may send the same answer in chunks.
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                  e\r\n{\"forgotten\":7\r\n1\r\n}\r\n0\r\n\r\n";
    let reset = run(&["key", "k", "--reset", "--url", &somebody_else(chunks)]);
    assert_eq!(said(&reset), "forgotten: 7 states\n", "{}", complained(&reset));
}

#[test]
fn what_a_server_says_is_not_obeyed_by_the_terminal() {
    let refusal = "HTTP/1.1 403 Forbidden\r\n\r\n{\"title\":\"\\u001b[2J\",\"detail\":\"\u{9b}2J\"}";
    let refused = run(&["key", "k", "--url", &somebody_else(refusal)]);
    assert!(complained(&refused).contains("\\u{1b}[2J: \\u{9b}2J"), "{}", complained(&refused));
    let stats = "HTTP/1.1 200 OK\r\n\r\n{\"server\":{\"name\":\"\u{9b}2J\"}}";
    let told = run(&["top", "--once", "--json", "--url", &somebody_else(stats)]);
    assert_eq!(said(&told), "{\"server\":{\"name\":\"\\u009b2J\"}}\n");
}

#[cfg(unix)]
#[test]
fn a_key_that_is_no_text_can_be_named() {
    use std::os::unix::ffi::OsStrExt;
    let server = Server::with(&[]);
    let key = std::ffi::OsStr::from_bytes(b"a\xff");
    let looked =
        ratekeeper(&["key", "--json", "--url", &server.address("http").to_string()]).arg(key).output();
    let looked = looked.unwrap();
    let view: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!(view["key"], r"a\xff", "{}", complained(&looked));
}

#[test]
fn key_shows_where_a_key_stands_and_resets_it() {
    let folder = Folder::new("key-command");
    let config = folder.write(
        "a.toml",
        "[plans.free]\nlimits = [\"3/h\"]\n[plans.llm]\nlimits = [\"100 tokens/h\", \"2 concurrent\"]\n",
    );
    let (auth, admin) = (folder.write("auth", "client"), folder.write("admin", "root"));
    let server =
        Server::with(&["--config", &config, "--auth-token-file", &auth, "--admin-token-file", &admin]);
    let url = server.address("http").to_string();
    let mut raw = server.connect();
    assert_eq!(raw.ask("AUTH client"), "+OK");
    let key = "user 42/é";
    for _ in 0..3 {
        raw.send(test_support::server::command(&[b"ACQUIRE", key.as_bytes(), b"free"])).reply();
    }
    raw.send(test_support::server::command(&[b"HOLD", key.as_bytes(), b"llm", b"UNIT", b"tokens", b"58"]))
        .reply();
    let looked = run(&["key", key, "--url", &url, "--token-file", &auth]);
    assert!(looked.status.success(), "{}", complained(&looked));
    for part in ["free                 per-h", "58       100 tokens", "held ", ": 58 tokens", "lease ends in"]
    {
        assert!(said(&looked).contains(part), "no {part:?} in\n{}", said(&looked));
    }
    let refused = run(&["key", key, "--reset", "--url", &url, "--token-file", &auth]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(complained(&refused).contains("needs the admin token"), "{}", complained(&refused));
    let reset = run(&["key", key, "--reset", "--plan", "free", "--url", &url, "--token", "root"]);
    assert_eq!(said(&reset), "forgotten: 1 states\n", "{}", complained(&reset));
    let mut from_environment = ratekeeper(&["key", key, "--plan", "free", "--json", "--url", &url]);
    let looked = from_environment.env("RATEKEEPER_TOKEN", "root").output().unwrap();
    let view: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!((&view["key"], &view["plans"][0]["rules"][0]["level"]), (&json!(key), &json!(0)));
}
