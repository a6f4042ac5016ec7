//! What a page from elsewhere can have a browser send to a server on loopback, and what comes of it.

use std::io::Read;
use std::net::Shutdown;

use serde_json::json;

use crate::console::web::{get, send, stats};
use crate::console::wires::{EVERYWHERE, outward};
use test_support::server::{Folder, Raw, Server};

const JSON: (&str, &str) = ("content-type", "application/json");

fn body() -> String {
    json!({ "key": "k", "quota": "9/h" }).to_string()
}

#[test]
fn a_name_that_was_made_to_point_here_is_refused() {
    let server = Server::with(&["--allowed-hosts", "limits.example,other.example"]);
    let address = server.address("http");
    let with_host = |method: &str, path: &str, host: &str| {
        let fields = [("host", host), JSON];
        let body = body();
        send(address, method, path, &fields, (method == "POST").then_some(body.as_str()))
    };
    for path in [
        "/",
        "/console.js",
        "/v1/stats",
        "/v1/plans",
        "/v1/keys/k",
        "/v1/events",
        "/metrics",
        "/openapi.json",
    ] {
        for evil in
            ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "x"]
        {
            assert_eq!(
                with_host("GET", path, evil).problem(),
                (421, "wrong_host".to_owned()),
                "{path} {evil}"
            );
        }
    }
    assert_eq!(with_host("POST", "/v1/acquire", "evil.example").status, 421);
    assert_eq!(with_host("POST", "/v1/reset", "evil.example").status, 421);
    let port = address.port();
    for own in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "LOCALHOST".to_owned(),
        "[::1]:1".to_owned(),
        "10.1.2.3".to_owned(),
        "limits.example".to_owned(),
        "OTHER.example:443".to_owned(),
    ] {
        assert_eq!(with_host("GET", "/v1/stats", &own).status, 200, "{own}");
        assert_eq!(with_host("POST", "/v1/acquire", &own).status, 200, "{own}");
    }
    // Probes say nothing that is worth the trouble, and are asked by any name.
    assert_eq!(with_host("GET", "/health", "evil.example").status, 200);
    assert_eq!(with_host("GET", "/ready", "evil.example").status, 200);
    // The whole address in the first line is a host, too.
    let mut raw = Raw::connect(address);
    raw.send(format!(
        "GET http://evil.example/v1/stats HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    ));
    assert!(raw.rest().starts_with("HTTP/1.1 421 "));
}

#[test]
fn who_shows_a_token_or_comes_from_elsewhere_may_use_any_name() {
    let server = Server::with(&["--auth-token", "client"]);
    let fields = [("host", "limits.example"), ("authorization", "Bearer client")];
    assert_eq!(send(server.address("http"), "GET", "/v1/stats", &fields, None).status, 200);
    assert_eq!(send(server.address("http"), "GET", "/v1/stats", &fields[..1], None).status, 401);
    let elsewhere = outward();
    let server = Server::with(&EVERYWHERE);
    let address = (elsewhere, server.address("http").port()).into();
    assert_eq!(send(address, "GET", "/v1/stats", &fields[..1], None).status, 200);
}

#[test]
fn pages_of_other_sites_change_nothing_and_read_nothing() {
    let folder = Folder::new("pages");
    let rules = folder.write(
        "a.yaml",
        "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 3}}\n",
    );
    let server = Server::with(&["--rls", &rules]);
    let address = server.address("http");
    let evil = [
        &[("origin", "http://evil.example")][..],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:1")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
    ];
    for fields in evil {
        let fields = [fields, &[JSON]].concat();
        for path in
            ["/throttle", "/v1/acquire", "/v1/reset", "/v1/forget", "/v1/try", "/json", "/v1/rls/reset"]
        {
            let reply = send(address, "POST", path, &fields, Some(&body()));
            assert_eq!(reply.problem(), (403, "cross_site".to_owned()), "{path} {fields:?}");
        }
        let gone = send(address, "DELETE", "/v1/keys/k", &fields, None);
        assert_eq!(gone.problem().1, "cross_site", "{fields:?}");
        for path in ["/v1/stats", "/v1/stats/stream", "/v1/history", "/v1/events", "/v1/keys/k", "/v1/plans"]
        {
            assert_eq!(
                send(address, "GET", path, &fields, None).problem().1,
                "cross_site",
                "{path} {fields:?}"
            );
        }
        let page = send(address, "GET", "/", &fields, None);
        assert_eq!(page.status, 200, "a link to the console may stand anywhere: {fields:?}");
    }
    let own = format!("http://{address}");
    let fields = [JSON, ("origin", &own), ("sec-fetch-site", "same-origin")];
    assert_eq!(send(address, "POST", "/v1/acquire", &fields, Some(&body())).status, 200);
    assert_eq!(send(address, "GET", "/v1/stats", &fields[1..], None).status, 200);
    // No answer ever allows another origin to read it, or to send JSON.
    for path in ["/", "/v1/stats", "/v1/acquire", "/v1/keys/k", "/health"] {
        let fields = [
            ("origin", "http://evil.example"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type"),
        ];
        for method in ["OPTIONS", "GET"] {
            let reply = send(address, method, path, &fields, None);
            assert!(
                !reply.head.to_lowercase().contains("access-control-"),
                "{method} {path}: {}",
                reply.head
            );
            assert!(method == "GET" || reply.status >= 400, "{path}");
        }
    }
}

#[test]
fn a_body_says_that_it_is_json() {
    let server = Server::start();
    let address = server.address("http");
    for path in [
        "/throttle",
        "/v1/acquire",
        "/v1/peek",
        "/v1/refund",
        "/v1/debit",
        "/v1/reset",
        "/v1/forget",
        "/v1/holds",
        "/v1/try",
    ] {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("text/plain; application/json"),
        ] {
            let fields: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
            let reply = send(address, "POST", path, &fields, Some(&body()));
            assert_eq!(reply.problem(), (415, "unsupported_media_type".to_owned()), "{path} {kind:?}");
        }
        let reply =
            send(address, "POST", path, &[("content-type", "application/json; charset=utf-8")], Some("{"));
        assert_eq!(reply.status, 400, "{path}");
    }
}

/// A form whose body is commands, as a browser would post it to the ports of other protocols.
#[test]
fn a_form_that_is_posted_to_another_port_is_not_obeyed() {
    let server = Server::start();
    assert!(server.ask("THROTTLE victim 1 1 3600").starts_with("1 "));
    for (transport, body) in [
        ("resp", &b"\r\nRESET victim\r\nRESET victim\r\n"[..]),
        ("resp", b"*2\r\n$5\r\nRESET\r\n$6\r\nvictim\r\n"),
        ("msgpack", b"\0\0\0\x0f\x82\xa3cmd\x05\xa3key\xa6victim"),
        ("grpc", b"anything"),
    ] {
        for method in ["POST", "PUT"] {
            let mut raw = Raw::connect(server.address(transport));
            let head = format!(
                "{method} / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            raw.send([head.as_bytes(), body].concat());
            let mut said = Vec::new();
            // It is closed, in whatever way; a client that goes on would be read otherwise.
            let _ = raw.0.shutdown(Shutdown::Write);
            let _ = raw.0.read_to_end(&mut said);
            let said = String::from_utf8_lossy(&said);
            assert!(!said.contains(":1\r\n"), "{transport}: {said}");
            assert_eq!(
                said.contains("the Redis protocol, not HTTP"),
                transport == "resp",
                "{transport}: {said}"
            );
        }
        assert!(
            server.ask("THROTTLE victim 1 1 3600").starts_with("0 "),
            "{transport}: nothing was forgotten"
        );
    }
}

/// All paths of the page: the document, and what it and its scripts name.
fn files_of_the_page(server: &Server) -> Vec<String> {
    let mut paths = vec!["/".to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        let folder = &path[..=path.rfind('/').unwrap()];
        let body = get(server, &path).body;
        let named = body.split('"').filter(|word| word.ends_with(".js") || word.ends_with(".css"));
        for name in named {
            let found = format!("{folder}{}", name.trim_start_matches("./"));
            if !paths.contains(&found) {
                paths.push(found);
            }
        }
    }
    paths
}

#[test]
fn the_page_is_served_with_a_policy_that_allows_nothing_else() {
    let server = Server::start();
    let paths = files_of_the_page(&server);
    assert!(paths.len() > 3 && paths.iter().any(|path| path == "/console/chart.js"), "{paths:?}");
    let mut size = 0;
    for path in &paths {
        let kind = match path.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            _ => "text/html; charset=utf-8",
        };
        let reply = get(&server, path);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some(kind)), "{path}");
        let policy = reply.field("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.field("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.field("cross-origin-resource-policy"), Some("same-origin"));
        // Nothing that the policy would forbid, and no other host.
        for forbidden in
            ["http://", "https://", "style=", "onclick=", "<style", "innerHTML", "outerHTML", "eval("]
        {
            assert!(!reply.body.contains(forbidden), "{path} has {forbidden}");
        }
        assert_eq!(send(server.address("http"), "HEAD", path, &[], None).status, 200);
        assert_eq!(send(server.address("http"), "DELETE", path, &[], None).problem().0, 405);
        size += reply.body.len();
    }
    assert!(size < 96 * 1024, "the page has {size} bytes");
    for path in ["/console", "/console/", "/console/none.js", "/console.js/"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    let reply = get(&server, "/v1/stats");
    assert_eq!(reply.field("cache-control"), Some("no-store"));
    assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(stats(&server)["server"]["version"], env!("CARGO_PKG_VERSION"));
}
