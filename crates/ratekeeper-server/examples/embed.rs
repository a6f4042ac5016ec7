//! A program with a ratekeeper server inside: one engine, asked in process and over the network.
//!
//! ```text
//! cargo run -p ratekeeper-server --example embed
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use ratekeeper::{MemoryStore, Plan, Registry};
use ratekeeper_server::{Endpoint, Engine, RequestLimits, Server, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let plans = Registry::new([Plan::parse("free", "2/h")?]);
    let engine = Arc::new(Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default()));

    // The Redis protocol on a free port. The server runs on threads of its own, beside this runtime.
    let resp = Some(Endpoint::at(([127, 0, 0, 1], 0).into()));
    let server = Server::start(&Settings { resp, ..Settings::default() }, &engine)?;
    let (transport, address) = server.addresses()[0];
    println!("{transport} at {address}");

    // Whoever asks, it is the same engine: one of two is taken here, the other over the network.
    let ruling = engine.keeper().acquire("user:42", "free", 1).await?;
    println!("in process: allowed, {} left", ruling.remaining);
    for expected in [true, false] {
        let allowed = acquire(address, "user:42", "free").await?;
        println!("over the network: {}", if allowed { "allowed" } else { "denied" });
        assert_eq!(allowed, expected);
    }

    // To stop is to wait for what is in flight, and must not block the runtime.
    spawn_blocking(move || server.stop()).await?;
    Ok(())
}

/// Asks as any Redis client would. The reply is an array: allowed, limit, remaining, and more.
async fn acquire(server: SocketAddr, key: &str, plan: &str) -> Result<bool, Box<dyn Error>> {
    let mut client = TcpStream::connect(server).await?;
    client.write_all(format!("ACQUIRE {key} {plan}\r\nQUIT\r\n").as_bytes()).await?;
    let mut reply = String::new();
    client.read_to_string(&mut reply).await?;
    match reply.lines().nth(1) {
        Some(":1") => Ok(true),
        Some(":0") => Ok(false),
        _ => Err(reply.into()),
    }
}
