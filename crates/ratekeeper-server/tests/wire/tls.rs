//! Encrypted connections, on every transport.

use std::path::Path;
use std::process::Stdio;

use crate::python::script;
use crate::support::{Folder, Raw, Server, ratekeeper, run};

/// A certificate for this machine's own name and address, made for the test: where it is, and its key.
fn certificate(folder: &Folder) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    (folder.write("cert.pem", made.cert.pem()), folder.write("key.pem", made.signing_key.serialize_pem()))
}

#[test]
fn curl_redis_cli_and_grpc_over_tls() {
    let folder = Folder::new("tls");
    let (cert, key) = certificate(&folder);
    let plans = folder.write("a.toml", crate::python::PLANS);
    let mut flags =
        vec!["--tls-cert", &cert, "--tls-key", &key, "--auth-token", "sesame", "--config", &plans];
    flags.extend(["--max-period", "73000d"]);
    let server = Server::with(&flags);
    // Clients that never say a word are in nobody's way.
    let _silent: Vec<Raw> =
        ["http", "resp", "grpc", "msgpack"].iter().map(|name| Raw::connect(server.address(name))).collect();

    let url = format!("https://localhost:{}/throttle", server.address("http").port());
    let body = r#"{"key":"curl","max_burst":10,"count_per_period":100,"period":60}"#;
    let resolve = format!("localhost:{}:127.0.0.1", server.address("http").port());
    let common = ["-sS", "--max-time", "30", "--resolve", &resolve, "-H", "authorization: Bearer sesame"];
    let json = ["-H", "content-type: application/json"];
    let said = run("curl", &[&common[..], &json, &["--cacert", &cert, "-d", body, &url]].concat());
    assert_eq!(said, r#"{"allowed":true,"limit":10,"remaining":9,"reset_after":1,"retry_after":0}"#);

    let port = server.address("resp").port().to_string();
    let tls =
        ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", &cert, "--no-auth-warning", "-a", "sesame"];
    assert_eq!(
        run("redis-cli", &[&tls[..], &["THROTTLE", "r", "10", "100", "60"]].concat()),
        "1\n10\n9\n1\n0\n"
    );
    let many = "PING\n".repeat(2000);
    let file = folder.write("many", &many);
    let piped = format!("redis-cli {} < {file}", tls.join(" "));
    assert_eq!(run("sh", &["-c", &piped]), "PONG\n".repeat(2000));

    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let grpc = format!("localhost:{}", server.address("grpc").port());
    script("grpc_client.py", &[proto.to_str().unwrap(), &grpc, "sesame", &cert]);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn whoever_does_not_encrypt_is_not_served() {
    let folder = Folder::new("tls-plain");
    let (cert, key) = certificate(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key]);
    let mut raw = server.connect();
    raw.send("PING\r\nPING\r\n");
    assert!(!raw.rest().contains("PONG"));
}

#[test]
fn an_encrypted_port_may_be_open_to_the_network() {
    let folder = Folder::new("tls-open");
    let (cert, key) = certificate(&folder);
    let server = Server::with(&["--resp", "0.0.0.0:0", "--tls-cert", &cert, "--tls-key", &key]);
    server.signal("TERM");
    // The first line that is logged: no warning came before it.
    assert!(server.await_log("").contains("stopping"));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn bad_files_are_told_by_their_flag() {
    let folder = Folder::new("tls-bad");
    let (cert, key) = certificate(&folder);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = folder.write("other.pem", other.signing_key.serialize_pem());
    let empty = folder.write("empty.pem", "");
    let missing = folder.path("missing.pem");
    for (cert, key, expected) in [
        (&missing, &key, format!("--tls-cert {missing}")),
        (&empty, &key, format!("--tls-cert {empty}: no certificate")),
        (&key, &key, format!("--tls-cert {key}: no certificate")),
        (&cert, &missing, format!("--tls-key {missing}")),
        (&cert, &cert, format!("--tls-key {cert}: no private key")),
        (&cert, &other, format!("--tls-key {other}: does not go with --tls-cert {cert}")),
    ] {
        let flags = ["serve", "--resp", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
        let output = ratekeeper(&flags).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("ratekeeper: {expected}")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
