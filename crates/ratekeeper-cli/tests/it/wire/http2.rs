//! Clients of gRPC that keep to the letter of HTTP/2, and yet would make the server keep something for ever.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use bytes::Bytes;

use crate::wire::grpc::{PREFACE, THROTTLE, block, call, connect, request};
use test_support::server::{Raw, Server, until};

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
/// Key "k", burst 2, one in 60 seconds.
const MESSAGE: &[u8] = b"\0\0\0\0\x09\x0a\x01k\x10\x02\x18\x01\x20\x3c";

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// The fields of a call, without a table.
fn fields(path: &str) -> Vec<u8> {
    let len = u8::try_from(path.len()).unwrap();
    [b"\x83\x86\x04", &[len][..], path.as_bytes(), b"\x0f\x10\x10application/grpc\0\x02te\x08trailers"]
        .concat()
}

/// Sends a piece again and again, until the server closes the connection.
fn trickle(mut raw: Raw, piece: &[u8]) {
    raw.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    until("the connection is closed", || {
        let _ = raw.0.write_all(piece);
        let mut some = [0; 4096];
        match raw.0.read(&mut some) {
            Ok(len) => len == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    });
}

/// The client has sent a request, and lets the server send nothing. Pings do not prolong its time.
#[test]
fn a_client_that_opens_no_window_is_cut_off() {
    let server = Server::with(&["--request-timeout", "1"]);
    let mut raw = Raw::connect(server.address("grpc"));
    let no_window = frame(4, 0, 0, b"\0\x04\0\0\0\0");
    let call = [frame(HEADERS, END_HEADERS, 1, &fields(THROTTLE)), frame(0, 1, 1, MESSAGE)].concat();
    raw.send([PREFACE, &no_window, &call].concat());
    trickle(raw, &frame(6, 0, 0, &[0; 8]));
}

/// A client that opens its window byte by byte takes its answer, though it needs longer than a request may in all.
#[test]
fn a_client_that_opens_its_window_slowly_is_answered() {
    let server = Server::with(&["--request-timeout", "8"]);
    let mut raw = Raw::connect(server.address("grpc"));
    let no_window = frame(4, 0, 0, b"\0\x04\0\0\0\0");
    let call = [frame(HEADERS, END_HEADERS, 1, &fields(THROTTLE)), frame(0, 1, 1, MESSAGE)].concat();
    raw.send([PREFACE, &no_window, &call].concat());
    let mut said = Vec::new();
    // Thirteen bytes, one by one, each when the server has been silent for a while: longer in all than a request may take.
    raw.0.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    until("it is answered", || {
        raw.send(frame(8, 0, 1, &1_u32.to_be_bytes()));
        let mut some = [0; 4096];
        while let Ok(len @ 1..) = raw.0.read(&mut some) {
            said.extend_from_slice(&some[..len]);
        }
        said.ends_with(b"grpc-status\x010")
    });
}

#[test]
fn header_fields_that_never_end_are_cut_off() {
    let server = Server::with(&["--request-timeout", "1"]);
    let mut raw = Raw::connect(server.address("grpc"));
    raw.send([PREFACE, &frame(HEADERS, 0, 1, &fields(THROTTLE))].concat());
    trickle(raw, &frame(CONTINUATION, 0, 1, b""));
}

/// A stream may be open for ever, but a message that was begun must end.
#[test]
fn a_message_that_never_ends_is_cut_off() {
    let server = Server::with(&["--request-timeout", "1"]);
    block(async {
        let mut client = connect(&server).await;
        let (response, mut stream) =
            client.send_request(request(REFLECTION, "application/grpc"), false).unwrap();
        stream.send_data(Bytes::from_static(b"\0\0\0\xff\0begun"), false).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert!(body.data().await.is_none(), "there is nothing to answer");
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "4");
        assert_eq!(call(&mut client, THROTTLE, MESSAGE).await.1, "0", "its connection goes on");
    });
}

/// A watch lasts and needs no token: the server does not keep its request.
#[cfg(target_os = "linux")]
#[test]
fn a_watch_keeps_no_long_name() {
    const ROUNDS: usize = 8;
    const WATCHES: usize = 100;
    const NAME: usize = 60_000;
    let server = Server::with(&["--loops", "1"]);
    let name = "x".repeat(NAME);
    let len = u32::try_from(name.len() + 4).unwrap().to_be_bytes();
    // Field 1 of 60,000 bytes.
    let asked = Bytes::from([&[0], &len[..], b"\x0a\xe0\xd4\x03", name.as_bytes()].concat());
    block(async {
        let (mut clients, mut watching) = (Vec::new(), Vec::new());
        let mut before = 0;
        // In the first round the allocator fetches memory that it keeps.
        for round in 0..=ROUNDS {
            let mut client = connect(&server).await;
            for _ in 0..WATCHES {
                client = client.ready().await.unwrap();
                let (response, mut stream) =
                    client.send_request(request(WATCH, "application/grpc"), false).unwrap();
                stream.send_data(asked.clone(), true).unwrap();
                let mut body = response.await.unwrap().into_body();
                assert_eq!(body.data().await.unwrap().unwrap().as_ref(), b"\0\0\0\0\x02\x08\x03");
                watching.push((body, stream));
            }
            clients.push(client);
            if round == 0 {
                before = server.memory();
            }
        }
        let grown = server.memory().saturating_sub(before);
        // The names are 48 MB. The allocator fetches memory in pieces of up to 4 MB.
        let names = ROUNDS * WATCHES * NAME;
        assert!(grown < names / 2, "{grown} bytes for {} watches", ROUNDS * WATCHES);
    });
}
