//! A polite client: the server lets two a second through, and nobody is ever refused.
//!
//! `cargo run -p ratekeeper-http --example client --features axum,reqwest`

#![allow(clippy::print_stdout, reason = "an example shows something")]

use axum::Router;
use axum::routing::get;
use ratekeeper_http::Limit;
use ratekeeper_http::client::Pace;
use ratekeeper_http::headers::ServerLimits;
use tokio::net::TcpListener;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn serve(listener: TcpListener) -> Result<(), Error> {
    let limit = Limit::new("api", "2/s fixed".parse()?);
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit.layer());
    axum::serve(listener, app).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(serve(listener));

    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(Pace::new("50/s".parse()?)?.retries(3))
        .build();
    let start = std::time::Instant::now();
    for _ in 0..5 {
        let response = client.get(&url).send().await?;
        let told = response.extensions().get::<ServerLimits>().and_then(|told| told.limits.first());
        println!("{:.1?}: {} {told:?}", start.elapsed(), response.status());
    }
    Ok(())
}
