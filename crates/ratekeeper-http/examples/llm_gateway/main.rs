//! A gateway in front of a language model: requests, tokens and calls in flight are limited together, for each API key.
//!
//! `cargo run -p ratekeeper-http --example llm_gateway --features axum` shows what it does; with `-- serve` it listens on
//! 127.0.0.1:8000, for any client that speaks `/v1/chat/completions`.

#![allow(clippy::print_stdout, reason = "an example shows something")]

mod gateway;

use ratekeeper::MemoryStore;

#[tokio::main]
async fn main() -> Result<(), gateway::Error> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let address = gateway::serve("127.0.0.1:8000", MemoryStore::default()).await?;
        println!("listening on http://{address}/v1");
        std::future::pending::<()>().await;
    }
    gateway::demonstrate(MemoryStore::default(), |line| println!("{line}")).await
}
