//! A client of HTTP that sends exactly the fields it is told to.

use std::io::Read;
use std::net::SocketAddr;

use serde_json::Value;

use test_support::server::{Raw, Server};

/// What came back.
#[derive(Debug)]
pub(crate) struct WebReply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl WebReply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// Status and code of a problem.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{}", self.body);
        (self.status, self.json()["code"].as_str().unwrap().to_owned())
    }
}

/// Sends a request with these fields, and `host` unless that is among them.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    body: Option<&str>,
) -> WebReply {
    let mut raw = Raw::connect(address);
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("host: {address}\r\n"));
    }
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    raw.send(format!("{head}\r\n{}", body.unwrap_or_default()));
    let mut said = Vec::new();
    raw.0.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {said}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    WebReply { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(server: &Server, path: &str) -> WebReply {
    send(server.address("http"), "GET", path, &[], None)
}

pub(crate) fn post(server: &Server, path: &str, body: &Value) -> WebReply {
    let json = [("content-type", "application/json")];
    send(server.address("http"), "POST", path, &json, Some(&body.to_string()))
}

/// What the server does at present.
pub(crate) fn stats(server: &Server) -> Value {
    let reply = get(server, "/v1/stats");
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}
