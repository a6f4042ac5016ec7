//! Encrypted connections, on every transport.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::wire::python::script;
use test_support::certificates::{AUTHORITY, EXPIRED, LIMITS, LOOPBACK, NOT_YET, ONE, THREE, TWO};
use test_support::server::{Folder, Raw, Server, ratekeeper, run, until};

#[test]
fn curl_redis_cli_and_grpc_over_tls() {
    let folder = Folder::new("tls");
    let (cert, key) = ONE.write(&folder);
    let plans = folder.write("a.toml", crate::wire::python::PLANS);
    let mut flags =
        vec!["--tls-cert", &cert, "--tls-key", &key, "--auth-token", "sesame", "--config", &plans];
    flags.extend(["--max-period", "73000d"]);
    let server = Server::with(&flags);
    // Silent clients do not disturb the others.
    let _silent: Vec<Raw> =
        ["http", "resp", "grpc", "msgpack"].iter().map(|name| Raw::connect(server.address(name))).collect();

    let url = format!("https://localhost:{}/throttle", server.address("http").port());
    let body = r#"{"key":"curl","max_burst":10,"count_per_period":100,"period":60}"#;
    let resolve = format!("localhost:{}:127.0.0.1", server.address("http").port());
    let common = ["-sS", "--max-time", "120", "--resolve", &resolve, "-H", "authorization: Bearer sesame"];
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
    let (cert, key) = ONE.write(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key]);
    let mut raw = server.connect();
    raw.send("PING\r\nPING\r\n");
    assert!(!raw.rest().contains("PONG"));
}

#[test]
fn an_encrypted_port_may_be_open_to_the_network() {
    let folder = Folder::new("tls-open");
    let (cert, key) = ONE.write(&folder);
    let server = Server::with(&["--resp", "0.0.0.0:0", "--tls-cert", &cert, "--tls-key", &key]);
    server.signal("TERM");
    let said = server.log_to_the_end();
    assert!(said.iter().any(|line| line.contains("stopping")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("WARN")), "{said:?}");
}

#[test]
fn bad_files_are_told_by_their_flag() {
    let folder = Folder::new("tls-bad");
    let (cert, key) = ONE.write(&folder);
    let other = folder.write("other.pem", TWO.key);
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

/// Whether curl trusts the server's certificate if it trusts this one.
fn is_served(server: &Server, cert: &str) -> bool {
    let url = format!("https://{}/health", server.address("http"));
    let args = ["-s", "-o", "/dev/null", "--max-time", "120", "--cacert", cert, &url];
    Command::new("curl").args(args).status().unwrap().success()
}

#[test]
fn a_rotated_certificate_is_used_for_new_connections() {
    let folder = Folder::new("tls-rotate");
    let pairs = [ONE, TWO, THREE];
    let trusted: Vec<String> = pairs
        .iter()
        .enumerate()
        .map(|(index, pair)| folder.write(&format!("{index}.pem"), pair.cert))
        .collect();
    let (cert, key) = pairs[0].write(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key]);
    assert!(is_served(&server, &trusted[0]) && !is_served(&server, &trusted[1]));
    let port = server.address("resp").port().to_string();
    let mut open = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", &trusted[0]])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (open.stdin.take().unwrap(), BufReader::new(open.stdout.take().unwrap()));
    let mut ping = || {
        writeln!(to, "PING").unwrap();
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(ping(), "PONG\n");
    // The files are replaced one after the other: in between they do not go together, and nothing changes.
    folder.write("cert.pem", pairs[1].cert);
    server.signal("HUP");
    let said = server.await_log("the old one stays");
    assert!(
        said.contains("ERROR") && said.contains(&format!("does not go with --tls-cert {cert}")),
        "{said}"
    );
    assert!(is_served(&server, &trusted[0]));
    // Without a signal, the server notices the other file.
    folder.write("key.pem", pairs[1].key);
    until("the new certificate is used", || is_served(&server, &trusted[1]));
    assert!(!is_served(&server, &trusted[0]));
    assert_eq!(ping(), "PONG\n", "an open connection keeps its certificate");
    // After a signal, it looks at once.
    server.await_log("certificate reloaded");
    folder.write("key.pem", pairs[2].key);
    folder.write("cert.pem", pairs[2].cert);
    server.signal("HUP");
    server.await_log("certificate reloaded");
    assert!(is_served(&server, &trusted[2]));
    drop(to);
    assert!(open.wait().unwrap().success());
}

/// Writes a certificate that expires in ten days, and its key.
fn expires_soon(folder: &Folder) {
    let (cert, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    let new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    run(
        "openssl",
        &[&new[..], &["-days", "10", "-subj", "/CN=soon", "-keyout", &key, "-out", &cert]].concat(),
    );
}

#[test]
fn a_certificate_that_clients_refuse_is_warned_about_at_the_start_and_when_it_is_reloaded() {
    let folder = Folder::new("tls-expired");
    let (cert, key) = EXPIRED.write(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key]);
    let said = server.await_log("certificate has expired");
    assert!(said.contains("WARN") && said.contains(&cert), "{said}");
    let metric = "ratekeeper_tls_certificate_expiry_timestamp_seconds ";
    let expiry = || -> u64 {
        let page = run("curl", &["-skS", &format!("https://{}/metrics", server.address("http"))]);
        page.lines().find_map(|line| line.strip_prefix(metric)).unwrap().parse().unwrap()
    };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(expiry() < now());
    NOT_YET.write(&folder);
    server.signal("HUP");
    server.await_log("certificate is not valid yet");
    assert!(expiry() > now());
    expires_soon(&folder);
    server.signal("HUP");
    server.await_log("certificate expires soon");
    assert!(expiry() > now());
    // A good one is not warned about.
    ONE.write(&folder);
    server.signal("HUP");
    // The warning above may be logged twice: the server looks at the files every second, and at a signal.
    while !server.await_log("certificate reloaded").contains("2126") {}
    server.signal("TERM");
    let said = server.log_to_the_end();
    assert!(!said.iter().any(|line| line.contains("WARN")), "{said:?}");
}

#[test]
fn health_can_be_asked_over_tls() {
    let folder = Folder::new("tls-health");
    let ca = folder.write("ca.pem", AUTHORITY.cert);
    let (cert, key) = LOOPBACK.write(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key, "--auth-token", "sesame"]);
    let address = server.address("http").to_string();
    let url = format!("https://{address}");
    let elsewhere = Folder::new("tls-health-other");
    let (other, _) = TWO.write(&elsewhere);
    let ask = |args: &[&str], environment: &[(&str, &str)]| {
        let mut command = ratekeeper(&["health"]);
        let output = command.args(args).envs(environment.iter().copied()).output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let well = (Some(0), "ok\n".to_owned());
    assert_eq!(ask(&["--http", &address, "--tls-ca", &ca], &[]), well);
    assert_eq!(ask(&["--http", &url, "--tls-ca", &ca], &[]), well);
    assert_eq!(ask(&["--http", &address, "--tls-cert", &cert], &[]), well, "the very certificate");
    assert_eq!(ask(&["--http", &url, "--insecure"], &[]), well);
    let server_environment = [("RATEKEEPER_HTTP", address.as_str()), ("RATEKEEPER_TLS_CERT", &cert)];
    assert_eq!(ask(&[], &server_environment), well, "in the environment of the server");
    for (args, expected) in [
        (&["--http", &url, "--tls-ca", &other][..], "invalid peer certificate"),
        (&["--http", &url], ""),
        (&["--http", &address], "must be asked with --tls-ca"),
        (&["--http", &url, "--tls-ca", &key], "--tls-ca"),
        (&["--http", &url, "--tls-cert", &key], "--tls-cert"),
        (&["--http", &url, "--tls-cert", &key], "no certificate in PEM form"),
    ] {
        let (code, said) = ask(args, &[]);
        assert!(code == Some(1) && said.contains(expected) && said.lines().count() == 1, "{args:?}: {said}");
    }
    drop(server);
    // A name that is not the server's.
    let (cert, key) = LIMITS.write(&folder);
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key]);
    let address = server.address("http").to_string();
    let (code, said) = ask(&["--http", &address, "--tls-ca", &ca], &[]);
    assert!(code == Some(1) && said.contains("not valid for name"), "{said}");
}

/// A read of a pipe waits for ever, and would keep the server from hearing a signal to stop.
#[test]
fn files_that_became_pipes_are_not_read_and_hold_up_nothing() {
    let folder = Folder::new("tls-pipes");
    let (cert, key) = ONE.write(&folder);
    let config = folder.write("a.toml", "[plans.gold]\nlimits = [\"5/h\"]\n");
    let server = Server::with(&["--tls-cert", &cert, "--tls-key", &key, "--config", &config]);
    for path in [&cert, &key, &config] {
        std::fs::remove_file(path).unwrap();
        run("mkfifo", &[path]);
    }
    for _ in 0..2 {
        server.signal("HUP");
        for _ in 0..2 {
            let said = server.await_log("no regular file");
            assert!(said.contains("ERROR"), "{said}");
        }
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}
