//! A server of nothing but hyper: it tells the limit who is asking.
//!
//! `cargo run -p ratekeeper-http --example hyper`

#![allow(clippy::print_stdout, reason = "an example shows something")]

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use ratekeeper_http::Limit;
use ratekeeper_http::key::{ClientIp, Peer};
use tokio::net::TcpListener;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

async fn serve(listener: TcpListener) -> Result<(), Error> {
    let limit = Limit::new("api", "1/s burst 2".parse()?).by(ClientIp::default());
    let service = limit.layer().layer(service_fn(hello));
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = service.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer::from(peer));
            service.clone().oneshot(request)
        });
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url: http::Uri = format!("http://{}/", listener.local_addr()?).parse()?;
    tokio::spawn(serve(listener));
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    for _ in 0..3 {
        let response = client.get(url.clone()).await?;
        println!("{} {:?}", response.status(), response.headers().get("ratelimit"));
    }
    Ok(())
}
