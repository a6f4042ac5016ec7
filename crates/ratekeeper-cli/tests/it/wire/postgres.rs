//! Servers that share their limits through a real PostgreSQL, also while it is down.

use std::process::Stdio;

use crate::wire::http::get;
use test_support::binary::ratekeeper;
use test_support::certificates::{ONE, TWO};
use test_support::postgres::Server as Postgres;
use test_support::server::{Folder, PATIENT, Server, until};

#[test]
fn two_servers_share_limits_and_survive_the_database() {
    let Some(mut postgres) = Postgres::start(&[]) else { return };
    let folder = Folder::new("postgres-shared");
    let plans = "[store]\ntype = \"postgres\"\nurl = \"URL\"\ntable = \"shop\"\n\
                 [plans.open]\nlimits = [\"3/h\"]\non_store_error = \"open\"\n\
                 [plans.closed]\nlimits = [\"3/h\"]\non_store_error = \"closed\"\n\
                 [plans.llm]\nlimits = [\"100 tokens/h\", \"2 concurrent\"]\n";
    let file = folder.write("a.toml", plans.replace("URL", &postgres.url()));
    let start = || Server::with(&[&["--config", &file][..], &PATIENT].concat());
    let (one, other) = (start(), start());
    one.await_log("store: it answers");
    for (server, expected) in [(&one, "1 3 2 "), (&other, "1 3 1 "), (&one, "1 3 0 "), (&other, "0 3 0 ")] {
        assert!(server.ask("THROTTLE k 3 1 3600").starts_with(expected));
        let ruled = server.ask("ACQUIRE k closed");
        assert!(ruled.starts_with(expected.get(..1).unwrap()), "{ruled}");
    }
    assert_eq!(postgres.sql("SELECT count(*) FROM shop"), ["1"], "one row for one key");
    // A hold that one has made is ended by the other.
    let held = one.ask("HOLD u llm UNIT tokens 40");
    let id = held.split_whitespace().find(|word| word.len() == 32).unwrap_or_else(|| panic!("{held}"));
    let settled = other.ask(&format!("SETTLE u {id} UNIT tokens 10"));
    assert!(settled.contains("settled"), "{settled}");
    let metrics = get(&one, "/metrics").body;
    assert!(metrics.contains("ratekeeper_breaker_state{node=\"postgres\"} 0"), "{metrics}");
    postgres.kill();
    until("each mode answers", || {
        one.ask("ACQUIRE new open").starts_with('1') && one.ask("ACQUIRE new closed").starts_with('0')
    });
    assert!(get(&one, "/metrics").body.contains("ratekeeper_store_errors_total{kind=\"unreachable\"}"));
    postgres.restart(&[]);
    // The table is not logged: a crash forgets. It is there, though, and shared again.
    until("the store decides again", || {
        one.ask("ACQUIRE back closed").starts_with("1 ")
            && !other.ask("PEEK back closed").starts_with("1 3 3")
    });
}

#[test]
fn what_is_wrong_is_told_by_flag_and_file() {
    let folder = Folder::new("postgres-wrong");
    let file = folder.write("a.toml", "[store]\ntype = \"redis\"\nurl = \"postgres://u:sesame@h/d\"\n");
    let wrong: [(&[&str], &str); 4] = [
        (&["--store", "postgres:///d"], "--store: host: missing; use postgres://"),
        (&["--store", "postgres://u:sesame@h:port/d"], "--store: cannot be read"),
        (
            &["--store", "postgres://h/d", "--postgres-table", "a b"],
            "--store: table: \"a b\"; lower-case letters",
        ),
        (&["--config", &file], "[store] type: redis: the url is that of a PostgreSQL; write \"postgres\""),
    ];
    for (flags, expected) in wrong {
        let output = ratekeeper(&[&["serve"], flags].concat()).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected) && !said.contains("sesame"), "{said}");
    }
}

/// An encrypted connection is made only to the server that the certificate names.
#[cfg(feature = "tls")]
#[test]
fn an_encrypted_connection_is_verified() {
    let Some(postgres) = Postgres::with_certificate(ONE.cert, ONE.key) else { return };
    let folder = Folder::new("postgres-tls");
    let trusted = folder.write("ca.pem", ONE.cert);
    let untrusted = folder.write("stranger.pem", TWO.cert);
    let url = postgres.encrypted_url();
    let start = |ca: &str| {
        let flags = ["serve", "--store", &url, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let mut command =
            ratekeeper(&[&flags[..], &["--grpc", "off", "--msgpack", "off"], &PATIENT].concat());
        Server::spawn(command.env("SSL_CERT_FILE", ca))
    };
    let server = start(&trusted);
    server.await_log("store: it answers");
    assert!(server.ask("THROTTLE k 3 1 3600").starts_with("1 3 2 "));
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'ratekeeper'";
    assert_eq!(postgres.sql(encrypted), ["t"]);
    let said = start(&untrusted).await_log("store: not there yet");
    assert!(said.contains("certificate"), "{said}");
}
