//! The Redis transport, reply by reply: docs/wire.md §2.

use test_support::server::{Server, command};

/// Sends these commands in one write, so that they are decided at one instant, and compares the answers.
#[track_caller]
fn answers(server: &Server, table: &[(&str, &str)]) {
    let lines: Vec<&str> = table.iter().map(|(line, _)| *line).collect();
    for ((line, expected), answer) in table.iter().zip(server.connect().ask_at_once(&lines)) {
        assert_eq!(answer, *expected, "{line}");
    }
}

#[test]
fn the_worked_answers_of_throttle() {
    let server = Server::start();
    assert_eq!(server.ask("THROTTLE k 10 100 60"), "1 10 9 1 0");
    assert_eq!(server.ask("THROTTLE never 5 100 60 10"), "0 5 5 0 -1");
    answers(
        &server,
        &[
            ("THROTTLE five 5 10 3600", "1 5 4 360 0"),
            ("THROTTLE five 5 10 3600", "1 5 3 720 0"),
            ("THROTTLE five 5 10 3600", "1 5 2 1080 0"),
            ("THROTTLE five 5 10 3600", "1 5 1 1440 0"),
            ("THROTTLE five 5 10 3600", "1 5 0 1800 0"),
            ("throttle five 5 10 3600", "0 5 0 1800 360"),
            ("THROTTLE ten 10 10 3600 5", "1 10 5 1800 0"),
            ("THROTTLE ten 10 10 3600 6", "0 10 5 1800 360"),
            ("THROTTLE ten 10 10 3600 5", "1 10 0 3600 0"),
        ],
    );
}

#[test]
fn the_worked_answers_of_redis_cell() {
    let server = Server::start();
    assert_eq!(server.ask("CL.THROTTLE user123 15 30 60"), "0 16 15 -1 2");
    assert_eq!(server.ask("CL.THROTTLE never 4 1 60 6"), "1 5 5 -1 0");
    answers(
        &server,
        &[
            ("CL.THROTTLE k 0 1 3600", "0 1 0 -1 3600"),
            ("CL.THROTTLE k 0 1 3600", "1 1 0 3600 3600"),
            // A negative quantity gives back, and never more than there is room for.
            ("CL.THROTTLE back 9 1 3600 4", "0 10 6 -1 14400"),
            ("CL.THROTTLE back 9 1 3600 -3", "0 10 9 -1 3600"),
            ("CL.THROTTLE back 9 1 3600 -9223372036854775808", "0 10 10 -1 0"),
        ],
    );
}

/// The cases that throttlecrab 0.4.40 was seen to get wrong.
#[test]
fn what_others_answer_wrongly() {
    let server = Server::start();
    // A burst of 1 is 1.
    answers(
        &server,
        &[
            ("THROTTLE a 1 1 60", "1 1 0 60 0"),
            ("THROTTLE a 1 1 60", "0 1 0 60 60"),
            ("THROTTLE a 1 1 60", "0 1 0 60 60"),
        ],
    );
    let mut raw = server.connect();
    let refused = raw.ask("THROTTLE c 2000000000 1 99999999999");
    assert!(refused.starts_with("-ERR invalid period: 99999999999"), "{refused}");
    assert_eq!(raw.ask("THROTTLE c 10 100 60"), "1 10 9 1 0", "and the service goes on");
    assert_eq!(raw.ask("THROTTLE d 1 1 60 0"), "1 1 1 0 0", "0 peeks");
    assert_eq!(raw.ask("THROTTLE d 1 1 60"), "1 1 0 60 0");
    let denied = raw.ask_at_once(&["THROTTLE e 3 100 60"; 4]).pop();
    assert_eq!(denied.as_deref(), Some("0 3 0 2 1"), "denied is never `retry 0`");
    let refused = raw.ask("THROTTLE f 4294967297 1 60 2");
    assert!(refused.starts_with("-ERR invalid max_burst: 4294967297"), "{refused}");
    assert_eq!(raw.ask("THROTTLE g 4294967297 1000000 1 2"), "1 4294967297 4294967295 1 0");
}

#[test]
fn errors_begin_with_err_and_never_split() {
    let server = Server::start();
    let mut raw = server.connect();
    assert_eq!(raw.ask("THROTTLE"), "-ERR wrong number of arguments for 'throttle' command");
    let missing = "-ERR wrong number of arguments for 'throttle' command: no max_burst, and no default_burst is configured";
    assert_eq!(raw.ask("THROTTLE k"), missing);
    assert_eq!(raw.ask("THROTTLE k 0 1 1"), "-ERR invalid max_burst: 0; must be at least 1");
    assert_eq!(raw.ask("THROTTLE k x 1 1"), "-ERR invalid max_burst: 'x'; must be an integer of 64 bits");
    assert_eq!(raw.ask("THROTTLE k 1 1 1 -1"), "-ERR invalid quantity: -1; must be at least 0");
    assert_eq!(raw.ask("FOO"), "-ERR unknown command 'FOO'");
    raw.send(command(&[b"a\r\n+OK\r\n\xff"])).expect("-ERR unknown command 'a\\r\\n+OK\\r\\n\\xff'\r\n");
    raw.send(command(&[b"THROTTLE", &[b'k'; 1025], b"1", b"1", b"1"]));
    assert_eq!(raw.reply(), "-ERR invalid key: 1025 bytes; a key has 1 to 1024 bytes");
    assert_eq!(raw.ask("PING"), "+PONG");
}

#[test]
fn keys_are_bytes() {
    let server = Server::start();
    let mut raw = server.connect();
    for key in [&b"\r\n"[..], b"\xff\x00", b"\xff\x01"] {
        raw.send(command(&[b"THROTTLE", key, b"1", b"1", b"60"]));
        assert_eq!(raw.reply(), "1 1 0 60 0");
    }
}

#[test]
fn a_pipeline_is_answered_in_order_whatever_is_in_it() {
    let server = Server::start();
    let mut raw = server.connect();
    let mut sent = Vec::new();
    for index in 0..2_000 {
        let quantity = if index % 7 == 0 { "x" } else { "1" };
        sent.extend(command(&[b"THROTTLE", b"hot", b"2000", b"1", b"1000", quantity.as_bytes()]));
        sent.extend(command(&[b"ECHO", index.to_string().as_bytes()]));
        sent.extend(command(&[b"CL.THROTTLE", format!("own{index}").as_bytes(), b"0", b"1", b"60"]));
    }
    let mut writer = raw.0.try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &sent).unwrap());
    let mut left = 2_000;
    for index in 0..2_000 {
        let reply = raw.reply();
        if index % 7 == 0 {
            assert!(reply.starts_with("-ERR invalid quantity"), "{reply}");
        } else {
            left -= 1;
            assert!(reply.starts_with(&format!("1 2000 {left} ")), "{left}: {reply}");
        }
        assert_eq!(raw.reply(), index.to_string());
        assert_eq!(raw.reply(), "0 1 0 -1 60");
    }
    sending.join().unwrap();
}

/// A request that differs from the one before only in its key is not parsed again. The answers must be the same all the same.
#[test]
fn a_request_like_the_last_one_is_held_to_its_own_key() {
    let server = Server::start();
    let mut raw = server.connect();
    let long = [b'l'; 120];
    let keys: [&[u8]; 8] =
        [b"a", b"b", b"ten bytes.", b"\r\n$1\r\n2\r\n$1\r\n2\r\n", &long[..99], &long[..100], &long, b"c"];
    let twice: Vec<u8> = keys
        .iter()
        .flat_map(|key| [(key, b"2"), (key, b"2"), (key, b"2"), (key, b"3")])
        .flat_map(|(key, burst)| command(&[b"THROTTLE", key, burst, b"2", b"3600"]))
        .collect();
    // In one piece, and cut at every place where a request could be mistaken for a whole one.
    raw.send(&twice);
    for key in keys {
        let replies = [(); 4].map(|()| raw.reply());
        assert!(replies[0].starts_with("1 2 1 ") && replies[1].starts_with("1 2 0 "), "{key:?} {replies:?}");
        assert!(replies[2].starts_with("0 2 0 ") && replies[3].starts_with("1 3 0 "), "{key:?} {replies:?}");
    }
    let whole = command(&[b"THROTTLE", b"cut", b"200", b"1", b"3600"]);
    for cut in 0..whole.len() {
        raw.send(&whole[..cut]).send(&whole[cut..]);
        let remaining = 199 - cut;
        assert!(raw.reply().starts_with(&format!("1 200 {remaining} ")), "cut at {cut}");
    }
    raw.send(command(&[b"THROTTLE", b"", b"200", b"1", b"3600"]));
    assert_eq!(raw.reply(), "-ERR invalid key: 0 bytes; a key has 1 to 1024 bytes");
}

#[test]
fn inline_commands_work() {
    let server = Server::start();
    let mut raw = server.connect();
    raw.send("PING\r\n").expect("+PONG\r\n");
    raw.send("\r\n\nthrottle 'a b' 10 100 60\n").expect("*5\r\n:1\r\n:10\r\n:9\r\n:1\r\n:0\r\n");
    raw.send("PING hello\r\n").expect("$5\r\nhello\r\n");
}

#[test]
fn what_stock_clients_say_first() {
    let server = Server::start();
    let mut raw = server.connect();
    assert_eq!(raw.ask("PING"), "+PONG");
    assert_eq!(raw.ask("ECHO x"), "x");
    assert_eq!(raw.ask("SELECT 0"), "+OK");
    assert_eq!(raw.ask("SELECT 1"), "-ERR DB index is out of range");
    assert_eq!(raw.ask("CLIENT SETINFO LIB-NAME test"), "+OK");
    assert_eq!(raw.ask("CLIENT GETNAME"), "null");
    assert_eq!(raw.ask("CLIENT SETNAME me"), "+OK");
    assert_eq!(raw.ask("CLIENT GETNAME"), "me");
    assert!(raw.ask("CLIENT ID").parse::<u64>().is_ok());
    assert!(raw.ask("COMMAND COUNT").parse::<u64>().is_ok());
    assert!(raw.ask("COMMAND").contains("throttle -2"));
    assert!(raw.ask("COMMAND DOCS throttle").starts_with("throttle summary "));
    assert!(raw.ask("INFO").contains("ratekeeper_version:"));
    assert!(!raw.ask("INFO clients").contains("ratekeeper_version:"));
    assert!(raw.ask("AUTH x").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(raw.ask("HELLO 4"), "-NOPROTO unsupported protocol version");
    assert!(raw.ask("HELLO").starts_with("server redis version "));
    raw.send(command(&[b"HELLO", b"3"])).expect("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n");
    raw.send(command(&[b"QUIT"]));
    assert!(raw.rest().ends_with("+OK\r\n"));
}

/// As Redis does: stock clients that are configured with a password connect.
#[test]
fn the_default_user_needs_no_password_where_there_is_none() {
    let server = Server::start();
    assert_eq!(server.ask("AUTH default guess"), "+OK");
    assert!(server.ask("HELLO 2 AUTH default guess").contains("proto 2"));
    assert!(server.ask("AUTH guess").starts_with("-ERR AUTH <password> called without"));
    assert!(server.ask("HELLO 2 AUTH somebody guess").starts_with("-WRONGPASS"));
}

#[test]
fn nothing_is_answered_before_auth() {
    let server = Server::with(&["--auth-token", "sesame"]);
    let mut raw = server.connect();
    assert_eq!(raw.ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(raw.ask("THROTTLE k 1 1 60"), "-NOAUTH Authentication required.");
    assert_eq!(raw.ask("AUTH guess"), "-WRONGPASS invalid username-password pair or user is disabled.");
    assert!(raw.ask("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(raw.ask("AUTH anyone sesame"), "+OK");
    assert_eq!(raw.ask("THROTTLE k 1 1 60"), "1 1 0 60 0");
    // Also not what another connection was just answered.
    assert_eq!(server.ask("THROTTLE k 1 1 60"), "-NOAUTH Authentication required.");
    assert!(server.ask("HELLO 2 AUTH default sesame SETNAME me").contains("proto 2"));
}
