//! A gRPC server, limited per client address. A refusal is a gRPC status, with the same fields as metadata.
//!
//! `cargo run -p ratekeeper-http --example tonic --features tonic`

#![allow(clippy::print_stdout, reason = "an example shows something")]

use ratekeeper_http::Limit;
use ratekeeper_http::key::ClientIp;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = Limit::new("grpc", "1/s burst 2".parse()?).by(ClientIp::default());
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let address = incoming.local_addr()?;
    let server = Server::builder().layer(limit.layer()).add_service(health);
    tokio::spawn(server.serve_with_incoming(incoming));

    let channel = Endpoint::try_from(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    for _ in 0..3 {
        match client.check(HealthCheckRequest { service: String::new() }).await {
            Ok(response) => println!("served: {:?}", response.metadata().get("ratelimit")),
            Err(status) => println!(
                "{:?}: {}, retry after {:?}",
                status.code(),
                status.message(),
                status.metadata().get("retry-after")
            ),
        }
    }
    Ok(())
}
