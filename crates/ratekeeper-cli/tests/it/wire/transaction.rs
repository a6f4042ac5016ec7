//! `MULTI`, `EXEC` and `DISCARD`: compared with a real Redis, and with the clients that send them by default.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use redis::Value;

use crate::wire::abuse::said_until_closed;
use crate::wire::python::PLANS;
use test_support::redis::server::Server as Redis;
use test_support::server::{Folder, Raw, Server, command, run, until};

/// Commands that both servers know, and everything that can go wrong around a transaction. `CLIENT SETNAME` shows what
/// was executed and what was not.
const SCRIPTS: [&[&str]; 20] = [
    &["MULTI", "PING", "ECHO x", "EXEC", "PING"],
    &["MULTI", "EXEC"],
    &["MULTI", "DISCARD", "EXEC", "DISCARD"],
    &["EXEC", "DISCARD", "UNWATCH", "PING"],
    &["MULTI", "MULTI", "PING", "EXEC"],
    &["MULTI", "WATCH a", "PING", "EXEC"],
    &["MULTI", "UNWATCH", "EXEC"],
    &["MULTI", "CLIENT SETNAME a", "ECHO", "PING", "EXEC", "CLIENT GETNAME"],
    &["MULTI", "CLIENT SETNAME a", "ECHO", "DISCARD", "CLIENT GETNAME", "EXEC"],
    &["MULTI", "CLIENT SETNAME a", "CLIENT GETNAME", "EXEC", "CLIENT GETNAME"],
    &["MULTI", "EXEC x", "PING", "EXEC"],
    &["MULTI", "DISCARD x", "PING", "EXEC"],
    &["MULTI", "MULTI x", "EXEC"],
    &["MULTI", "CLIENT", "EXEC"],
    &["MULTI x", "WATCH", "EXEC x", "PING"],
    // What goes wrong when it is executed is an element, and the others are executed all the same.
    &["MULTI", "SELECT 99", "SELECT x", "ECHO x", "EXEC"],
    &["CLIENT SETNAME a", "MULTI", "RESET", "EXEC", "CLIENT GETNAME"],
    &["RESET", "PING"],
    &["MULTI", "QUIT", "PING"],
    &["HELLO 3", "MULTI", "CLIENT GETNAME", "EXEC", "MULTI", "RESET", "CLIENT GETNAME"],
];

/// Everything that a server says to these commands, sent in one piece. A marker ends it, unless the server hangs up.
fn transcript(address: SocketAddr, script: &[&str]) -> String {
    let mut sent = Vec::new();
    for line in script {
        sent.extend(command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    }
    sent.extend(command(&[b"ECHO", b"the end"]));
    let mut raw = Raw::connect(address);
    raw.send(sent);
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    while !said.ends_with(b"the end\r\n") {
        match raw.0.read(&mut piece).unwrap() {
            0 => break,
            len => said.extend_from_slice(&piece[..len]),
        }
    }
    // Versions and connections have numbers of their own.
    let said = String::from_utf8(said).unwrap();
    let mut lines: Vec<&str> = said.split("\r\n").collect();
    let own = |name: &str| lines.iter().position(|line| *line == name);
    let own = [own("version").map(|at| (at + 1, 2)), own("id").map(|at| (at + 1, 1))];
    for (at, count) in own.into_iter().flatten() {
        lines[at..at + count].fill("…");
    }
    lines.join("\n")
}

#[test]
fn a_transaction_is_answered_as_redis_answers_it() {
    let (redis, server) = (Redis::redis(), Server::start());
    let model = SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port()));
    for script in SCRIPTS {
        assert_eq!(transcript(server.address("resp"), script), transcript(model, script), "{script:?}");
    }
}

#[test]
fn decisions_are_queued_and_answered_in_order() {
    let folder = Folder::new("multi");
    let server = Server::with(&["--config", &folder.write("a.toml", PLANS)]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("MULTI"), "+OK");
    for line in [
        "THROTTLE k 2 1 3600",
        "THROTTLE k 2 1 3600",
        "THROTTLE k 2 1 3600",
        "ACQUIRE k api COST 2",
        "CL.THROTTLE k 1 1 3600 -1",
        "THROTTLE k 2 1 3600 x",
        "ACQUIRE k nope",
        "PEEK k api",
        "RESET k",
        "PING",
    ] {
        assert_eq!(raw.ask(line), "+QUEUED", "{line}");
    }
    assert!(server.ask("THROTTLE k 2 1 3600 0").starts_with("1 2 2 "), "nothing is decided before EXEC");
    raw.send("EXEC\r\n").expect("*10\r\n");
    let replies = [(); 10].map(|()| raw.reply());
    for (reply, expected) in replies.iter().zip([
        "1 2 1 ",
        "1 2 0 ",
        "0 2 0 ",
        "1 3 1 ",
        "0 2 1 ",
        "-ERR invalid quantity: 'x'",
        "-ERR unknown plan 'nope'",
        "1 3 1 ",
        "2",
        "+PONG",
    ]) {
        assert!(reply.starts_with(expected), "{replies:?}");
    }
    assert_eq!(raw.ask("EXEC"), "-ERR EXEC without MULTI");
    assert!(raw.ask("THROTTLE k 2 1 3600").starts_with("1 2 1 "), "and the connection is as before");
}

/// A request that is like the one before is recognised by its bytes; not between `MULTI` and `EXEC`.
#[test]
fn what_was_just_answered_is_queued_too() {
    let server = Server::start();
    let mut raw = server.connect();
    let throttle = command(&[b"THROTTLE", b"k", b"9", b"1", b"3600"]);
    let sent = [&throttle[..], &throttle, b"MULTI\r\n", &throttle, &throttle, b"DISCARD\r\n", &throttle];
    raw.send(sent.concat());
    let replies = [(); 7].map(|()| raw.reply());
    let starts = ["1 9 8 ", "1 9 7 ", "+OK", "+QUEUED", "+QUEUED", "+OK", "1 9 6 "];
    assert!(replies.iter().zip(starts).all(|(reply, start)| reply.starts_with(start)), "{replies:?}");
}

#[test]
fn a_command_that_cannot_be_meant_aborts_the_transaction() {
    let server = Server::start();
    let mut raw = server.connect();
    for (wrong, message) in [
        ("FOO bar", "-ERR unknown command 'FOO'"),
        ("ACQUIRE k", "-ERR wrong number of arguments for 'acquire' command"),
        ("CLIENT NOPE", "-ERR unknown subcommand or wrong number of arguments for 'NOPE' of 'client'"),
        ("CLIENT SETNAME", "-ERR unknown subcommand or wrong number of arguments for 'SETNAME' of 'client'"),
        ("CONFIG SET a b", "-ERR unknown subcommand or wrong number of arguments for 'SET' of 'config'"),
        ("THROTTLE k 1 1 1 1 1", "-ERR wrong number of arguments for 'throttle' command"),
        (
            "CL.THROTTLE k 1",
            "-ERR wrong number of arguments for 'cl.throttle' command: no count_per_period, and no default_rate is \
             configured",
        ),
    ] {
        raw.ask("MULTI");
        assert_eq!(raw.ask("THROTTLE k 1 1 3600"), "+QUEUED");
        assert_eq!(raw.ask(wrong), message);
        assert_eq!(raw.ask("THROTTLE k 1 1 3600"), "+QUEUED");
        assert_eq!(raw.ask("EXEC"), "-EXECABORT Transaction discarded because of previous errors.");
    }
    assert!(raw.ask("THROTTLE k 1 1 3600").starts_with("1 1 0 "), "nothing was taken");
    assert!(raw.ask("WATCH k").starts_with("-ERR WATCH is not supported: "));
    for command in ["multi", "exec", "discard", "watch", "unwatch"] {
        assert!(raw.ask(&format!("COMMAND DOCS {command}")).starts_with(&format!("{command} summary ")));
    }
}

#[test]
fn what_may_be_queued_is_bounded() {
    let server = Server::start();
    let mut raw = server.connect();
    raw.ask("MULTI");
    let long = [b'x'; 60_000];
    let echo = command(&[b"ECHO", &long]);
    for _ in 0..1024 * 1024 / echo.len() {
        raw.send(&echo).expect("+QUEUED\r\n");
    }
    raw.send(&echo);
    assert_eq!(raw.reply(), "-ERR the commands of a transaction have at most 1048576 bytes");
    assert_eq!(raw.ask("PING"), "+QUEUED", "as in Redis; it is not kept");
    assert!(raw.ask("EXEC").starts_with("-EXECABORT"));

    raw.ask("MULTI");
    raw.send(b"PING\r\n".repeat(10_001));
    raw.expect(b"+QUEUED\r\n".repeat(10_000));
    assert_eq!(raw.reply(), "-ERR a transaction has at most 10000 commands");
    assert_eq!(raw.ask("DISCARD"), "+OK");

    raw.ask("MULTI");
    raw.send(b"RESET k\r\n".repeat(64)).expect(b"+QUEUED\r\n".repeat(64));
    assert_eq!(raw.ask("RESET k"), "-ERR a transaction has at most 64 RESET commands");
    assert!(raw.ask("EXEC").starts_with("-EXECABORT"));
}

/// Thousands of these in one `EXEC` held up everybody else of the loop, or megabytes for hours.
#[test]
fn what_is_no_short_work_is_not_queued() {
    let server = Server::start();
    let mut raw = server.connect();
    for wrong in ["AUTH x", "HELLO 3", "HELLO 3 AUTH default x", "FORGET k", "INFO", "COMMAND DOCS"] {
        raw.ask("MULTI");
        assert_eq!(raw.ask("CLIENT SETNAME a"), "+QUEUED");
        let name = wrong.split(' ').next().unwrap();
        let expected =
            format!("-ERR Command not allowed inside a transaction: send {name} before MULTI or after EXEC");
        assert_eq!(raw.ask(wrong), expected);
        assert!(raw.ask("EXEC").starts_with("-EXECABORT"));
    }
    assert_eq!(raw.ask("CLIENT GETNAME"), "null");
}

/// A client that queued commands and never executed them held its queue for ever. Queued commands do not prolong its time.
#[test]
fn a_transaction_has_the_time_of_a_request() {
    let server = Server::with(&["--request-timeout", "2"]);
    let mut silent = server.connect();
    let mut patient = server.connect();
    assert_eq!(silent.ask_at_once(&["MULTI", "PING"]), ["+OK", "+QUEUED"]);
    let mut busy = server.connect();
    assert_eq!(busy.ask("MULTI"), "+OK");
    until("the client that goes on and on is cut", || {
        busy.0.write_all(b"PING\r\n").is_err() || !matches!(busy.0.read(&mut [0; 64]), Ok(1..))
    });
    assert_eq!(said_until_closed(silent), b"");
    assert_eq!(patient.ask("PING"), "+PONG", "a connection without a transaction may be silent");
    assert_eq!(patient.ask_at_once(&["MULTI", "PING", "EXEC"]), ["+OK", "+QUEUED", "+PONG"]);
}

/// The queue of a client that leaves is freed.
#[test]
#[cfg(target_os = "linux")]
fn a_queue_is_given_back_when_its_client_leaves() {
    let server = Server::with(&["--loops", "1"]);
    let echo = command(&[b"ECHO", &[b'x'; 60_000]]);
    let fill = || {
        let mut raw = server.connect();
        raw.ask("MULTI");
        for _ in 0..17 {
            raw.send(&echo).expect("+QUEUED\r\n");
        }
        raw
    };
    // More than all clients together may have queued, if it were not given back.
    for _ in 0..70 {
        drop(fill());
    }
    let held: Vec<Raw> = (0..60).map(|_| fill()).collect();
    drop(held);
    until("there is room again", || {
        let mut raw = server.connect();
        raw.ask("MULTI") == "+OK" && raw.send(&echo).reply() == "+QUEUED"
    });
}

#[test]
fn the_redis_crate_sends_atomic_pipelines() {
    let server = Server::start();
    for version in ["resp2", "resp3"] {
        let url = format!("redis://{}/0?protocol={version}", server.address("resp"));
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let mut pipeline = redis::pipe();
        pipeline.atomic();
        for _ in 0..3 {
            pipeline.cmd("THROTTLE").arg(version).arg(2).arg(1).arg(3600);
        }
        let answers: Vec<Vec<i64>> = pipeline.query(&mut connection).unwrap();
        assert_eq!(answers.iter().map(|five| five[0]).collect::<Vec<_>>(), [1, 1, 0]);
        let error = redis::pipe().atomic().cmd("NO").query::<Value>(&mut connection).unwrap_err();
        assert!(error.to_string().contains("unknown command 'NO'"), "{error}");
        let one: Vec<i64> =
            redis::cmd("THROTTLE").arg("own").arg(9).arg(1).arg(3600).query(&mut connection).unwrap();
        assert_eq!((one[0], one[1]), (1, 9));
    }
}

#[test]
fn redis_cli_queues() {
    let server = Server::start();
    let folder = Folder::new("multi-cli");
    let mut lines = String::from("MULTI\n");
    for _ in 0..3 {
        writeln!(lines, "THROTTLE k 2 1 3600").unwrap();
    }
    let file = folder.write("lines", format!("{lines}EXEC\n"));
    let port = server.address("resp").port();
    let said = run("sh", &["-c", &format!("redis-cli -h 127.0.0.1 -p {port} < {file}")]);
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[..4], ["OK", "QUEUED", "QUEUED", "QUEUED"]);
    assert_eq!(said.iter().filter(|line| **line == "2").count(), 3, "three limits: {said:?}");
}

/// Many keys of one transaction are asked for at once; the same key waits for its turn.
#[test]
fn a_transaction_is_decided_by_a_store_elsewhere() {
    let redis = Redis::redis();
    let folder = Folder::new("multi-redis");
    let flags = ["--config", &folder.write("a.toml", PLANS), "--store", &redis.url()];
    let server = Server::with(&flags);
    let mut raw = server.connect();
    let mut sent = b"MULTI\r\n".to_vec();
    for index in 0..600 {
        sent.extend(command(&[b"ACQUIRE", format!("own{index}").as_bytes(), b"api", b"COST", b"2"]));
        sent.extend(command(&[b"THROTTLE", b"hot", b"700", b"1", b"3600"]));
    }
    for _ in 0..4 {
        sent.extend(command(&[b"ACQUIRE", b"hot", b"api"]));
    }
    sent.extend(b"PEEK own7 api\r\nPING\r\nRESET hot\r\nEXEC\r\n");
    raw.send(sent).expect("+OK\r\n").expect(b"+QUEUED\r\n".repeat(1_207)).expect("*1207\r\n");
    for index in 0..600 {
        assert!(raw.reply().starts_with("1 3 1 "));
        let hot = raw.reply();
        assert!(hot.starts_with(&format!("1 700 {} ", 699 - index)), "{index}: {hot}");
    }
    let allowed = [(); 4].map(|()| raw.reply().starts_with("1 3 "));
    assert_eq!(allowed, [true, true, true, false], "in their order");
    assert!(raw.reply().starts_with("1 3 1 "), "after what was taken before");
    assert_eq!([raw.reply(), raw.reply()], ["+PONG", "2"]);
}
