//! What an idle connection takes, transport by transport: silent since it was made, and after one request.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result};

use super::process::{Process, SERVER};
use crate::run::say;

/// Connections that are held at once.
const HELD: usize = 5_000;

const HTTP: &[u8] =
    b"POST /throttle HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 58\r\n\r\n\
    {\"key\":\"k\",\"max_burst\":1,\"count_per_period\":1,\"period\":60}";
const MSGPACK: &[u8] = b"\x00\x00\x00\x07\x95\x01\xa1k\x01\x01\x3c";

/// Prints a line for each transport of this server.
pub(super) fn measure(program: &OsStr) -> Result<()> {
    say(&format!(
        "| an idle connection, {HELD} held | silent, bytes | after one request, bytes |\n|---|---|---|"
    ));
    for name in ["RESP", "MessagePack", "HTTP", "gRPC"] {
        let (silent, asked) = (each(program, name, false)?, each(program, name, true)?);
        say(&format!("| {name} | {silent:.0} | {asked:.0} |"));
    }
    Ok(())
}

/// By how much the process grows with each connection. Each time a fresh one: what was freed might be used again.
fn each(program: &OsStr, name: &str, asks: bool) -> Result<f64> {
    let server = Process::ratekeeper(program, SERVER, 1)?;
    let (address, request) = match name {
        "HTTP" => (server.http, HTTP.to_vec()),
        "gRPC" => (server.grpc, grpc()),
        "MessagePack" => (server.msgpack, MSGPACK.to_vec()),
        _ => (server.resp, b"THROTTLE k 1 1 60\r\n".to_vec()),
    };
    let request = asks.then_some(request);
    let warm = hold(&server, address, request.as_deref(), 100)?;
    let before = server.resident()?;
    let held = hold(&server, address, request.as_deref(), HELD)?;
    let grown = server.resident()? - before;
    drop((warm, held));
    Ok(grown / HELD as f64)
}

fn hold(
    server: &Process,
    address: SocketAddr,
    request: Option<&[u8]>,
    count: usize,
) -> Result<Vec<TcpStream>> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream =
            TcpStream::connect(address).context("so many connections need as many descriptors")?;
        if let Some(request) = request {
            stream.write_all(request)?;
            // Some of the answer: the rest is on its way.
            anyhow::ensure!(stream.read(&mut [0; 1024])? > 0, "{address}: no answer");
        }
        held.push(stream);
    }
    // Whoever accepts one more has accepted, and read, all of them.
    server.keys()?;
    Ok(held)
}

/// One call of `throttlecrab.RateLimiter/Throttle`, with everything that comes before it on a connection.
fn grpc() -> Vec<u8> {
    /// Literals without indexing and without Huffman coding.
    fn field(fields: &mut Vec<u8>, name: &str, value: &str) {
        for text in [name, value] {
            if text == name {
                fields.push(0);
            }
            fields.push(u8::try_from(text.len()).unwrap_or(0));
            fields.extend(text.as_bytes());
        }
    }
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let len = u8::try_from(payload.len()).unwrap_or(0);
        [&[0, 0, len, kind, flags, 0, 0, 0, stream], payload].concat()
    }
    // `POST` and `http` are in the static table.
    let mut fields = vec![0x83, 0x86];
    field(&mut fields, ":path", "/throttlecrab.RateLimiter/Throttle");
    field(&mut fields, ":authority", "h");
    field(&mut fields, "content-type", "application/grpc");
    field(&mut fields, "te", "trailers");
    let message = b"\x00\x00\x00\x00\x09\x0a\x01k\x10\x01\x18\x01\x20\x3c";
    let parts = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, b""),
        frame(1, 4, 1, &fields),
        frame(0, 1, 1, message),
    ];
    parts.concat()
}
