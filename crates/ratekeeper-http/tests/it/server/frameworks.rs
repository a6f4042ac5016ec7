//! tonic and bare hyper, over real sockets.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use ratekeeper_http::Limit;
use ratekeeper_http::key::{ClientIp, Peer};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower_layer::Layer;

use crate::server::support;

#[tokio::test]
async fn tonic() {
    let limit = Limit::new("grpc", "2/h".parse().unwrap()).store(support::frozen()).by(ClientIp::default());
    let (_reporter, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = Server::builder().layer(limit.layer()).add_service(health);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
    let channel = Endpoint::try_from(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    let check = || HealthCheckRequest { service: String::new() };
    for left in [1, 0] {
        let response = client.check(check()).await.unwrap();
        let standing = response.metadata().get("ratelimit").unwrap().to_str().unwrap();
        assert_eq!(standing, format!(r#""grpc";r={left};t=1800"#));
    }
    let refused = client.check(check()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "the quota has been exceeded");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1800");
}

#[tokio::test]
async fn bare_hyper() {
    let limit = Limit::new("api", "2/h".parse().unwrap()).by(ClientIp::default());
    let hello = tower::service_fn(|_: http::Request<hyper::body::Incoming>| async {
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"hello"))))
    });
    let service = limit.layer().layer(hello);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let service = service.clone();
            let with_peer = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(Peer::from(peer));
                tower::ServiceExt::oneshot(service.clone(), request)
            });
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let service = TowerToHyperService::new(with_peer);
                server.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(support::get(address, "/", &[]).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}
