//! What an allowed request takes: the header value that tells where its client stands, and nothing else.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use ratekeeper_http::Limit;
use ratekeeper_http::headers::HeaderDialect;
use ratekeeper_http::key::{ClientIp, Peer};
use tower::Service;
use tower_layer::Layer;

type Body = Full<std::collections::VecDeque<u8>>;

/// A service that answers with headers which have room: those of a real response grow once, whoever fills them.
#[derive(Clone)]
struct Hello;

impl Service<Request<()>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut response = Response::new(Body::default());
        *response.headers_mut() = HeaderMap::with_capacity(8);
        ready(Ok(response))
    }
}

fn allocations<S: Service<Request<()>>>(mut service: S) -> u64 {
    let request = || {
        let mut request = Request::new(());
        request.extensions_mut().insert(Peer("192.0.2.1".parse().unwrap()));
        request
    };
    let mut call = |request| {
        let mut future = pin!(service.call(request));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    };
    // The key's state is made by the first request.
    call(request());
    let request = request();
    allocation_counter::measure(|| call(request)).count_total
}

#[test]
fn an_allowed_request_takes_its_header_value_and_nothing_else() {
    let limit = Limit::new("api", "1000/s".parse().unwrap()).by(ClientIp::default());
    let bare = allocations(Hello);
    let silent = allocations(limit.clone().dialect(HeaderDialect::None).layer().layer(Hello));
    let told = allocations(limit.layer().layer(Hello));
    assert_eq!(silent, bare, "deciding takes nothing");
    // The value itself; `http` keeps it behind a count of its own, and the second field of a response is what the map
    // makes a list for.
    assert!(told - bare <= 2, "{} for the header values", told - bare);
}
