//! An axum app, limited per client address, that is asked until it refuses.
//!
//! `cargo run -p ratekeeper-http --example axum --features axum`

#![allow(clippy::print_stdout, reason = "an example shows something")]

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ratekeeper_http::key::ClientIp;
use ratekeeper_http::{Limit, LimitDecision};
use tokio::net::TcpListener;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn hello(decision: LimitDecision) -> String {
    format!("hello, {} more", decision.decision.remaining)
}

async fn serve(listener: TcpListener) -> Result<(), Error> {
    let limit = Limit::new("api", "1/s burst 3".parse()?).by(ClientIp::default()).with_decision();
    let app = Router::new().route("/", get(hello)).layer(limit.layer());
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url: http::Uri = format!("http://{}/", listener.local_addr()?).parse()?;
    tokio::spawn(serve(listener));
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    for _ in 0..4 {
        let response = client.get(url.clone()).await?;
        println!("{}", response.status());
        for name in ["ratelimit-policy", "ratelimit", "retry-after"] {
            if let Some(value) = response.headers().get(name) {
                println!("  {name}: {}", value.to_str()?);
            }
        }
        println!("  {}", String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()));
    }
    Ok(())
}
