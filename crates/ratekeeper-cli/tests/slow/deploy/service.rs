//! The rate limit service, started as a manifest says: its arguments and its environment, on free ports.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use test_support::binary::ratekeeper;
use test_support::folder::Folder;
use test_support::redis::server::Server as Redis;
use test_support::server::{Raw, Server};

/// The documents of a YAML file; none without an interpreter that can read them.
pub(crate) fn documents(path: &Path) -> Option<Vec<Value>> {
    let Ok(python) = std::env::var("RATEKEEPER_PYTHON") else {
        eprintln!("{}: not read; `cargo xtask test` fetches what reads YAML", path.display());
        return None;
    };
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new(python).args(["-c", script]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// What `check` says of a folder or a file of rules; it must be right, and without a warning.
pub(crate) fn check(rules: &Path) {
    let output = ratekeeper(&["check", "--rls"]).arg(rules).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success() && !said.contains("warning"), "{}: {said}", rules.display());
}

/// A running service, its Redis and its rules.
pub(crate) struct Service {
    pub(crate) server: Server,
    _redis: Redis,
    _folder: Folder,
}

impl Service {
    /// Starts it with the arguments and the environment of a container whose rules lie in `/data/ratelimit/config`.
    pub(crate) fn start(args: &[&str], environment: &[(&str, &str)], rules: &[(&str, &str)]) -> Self {
        let folder = Folder::new("deploy-rules");
        std::fs::create_dir_all(folder.path("ratelimit/config")).unwrap();
        for (name, text) in rules {
            folder.write(&format!("ratelimit/config/{name}"), text);
        }
        let redis = Redis::redis();
        let mut command = ratekeeper(args);
        command.env("HOST", "127.0.0.1").env("GRPC_HOST", "127.0.0.1").env("DEBUG_HOST", "127.0.0.1");
        command.env("PORT", "0").env("GRPC_PORT", "0").env("DEBUG_PORT", "0");
        // A busy machine must not have it answer that the store is away.
        command.env("REDIS_TIMEOUT", "10s");
        for (name, value) in environment {
            match *name {
                "REDIS_URL" => command.env(name, format!("127.0.0.1:{}", redis.port())),
                "RUNTIME_ROOT" => {
                    assert_eq!(*value, "/data");
                    command.env(name, folder.path("."))
                }
                _ => command.env(name, value),
            };
        }
        Service { server: Server::spawn(&mut command), _redis: redis, _folder: folder }
    }

    /// Status and body of an answer on the HTTP port.
    pub(crate) fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http(self.server.address("http"), method, path, body, None)
    }

    /// Whether a user of the domain `edge` may go on.
    pub(crate) fn lets_pass(&self, user: &str) -> bool {
        let body = format!(
            r#"{{"domain":"edge","descriptors":[{{"entries":[{{"key":"user","value":"{user}"}}]}}]}}"#
        );
        match self.http("POST", "/json", &body).0 {
            200 => true,
            429 => false,
            other => panic!("{other}"),
        }
    }
}

/// Status and body of an answer, to a request with this token.
pub(crate) fn http(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    token: Option<&str>,
) -> (u16, String) {
    let mut raw = Raw::connect(address);
    let length = body.len();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{token}content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    raw.0.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    raw.0.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}
