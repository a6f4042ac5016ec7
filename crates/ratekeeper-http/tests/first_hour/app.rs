use std::net::SocketAddr;
use axum::{Router, routing::get};
use ratekeeper_http::{Limit, key::ClientIp};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let limit = Limit::new("api", "10/s burst 20".parse()?).by(ClientIp::default());
    let app = Router::new().route("/", get(|| async { "hello" })).layer(limit.layer());
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
