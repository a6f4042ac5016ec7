//! An HTTP request as extractors see it, whatever its body is.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, Method, Request, Uri};

use super::principal::Authenticated;
use super::request::RequestAttributes;

/// The extension in which a server tells the address at the other end of the connection. axum and tonic have their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer(address.ip())
    }
}

/// An HTTP request without its body. Copying it copies five pointers.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
    method: Option<&'a Method>,
    extensions: Option<&'a Extensions>,
    peer: Option<IpAddr>,
}

impl<'a> RequestView<'a> {
    /// Creates a view of a request of which only this is known.
    pub fn new(headers: &'a HeaderMap, uri: &'a Uri, peer: Option<IpAddr>) -> Self {
        RequestView { headers, uri, method: None, extensions: None, peer }
    }

    /// Returns a view of a request that a client is about to send.
    #[cfg(feature = "reqwest")]
    pub(crate) fn outgoing(
        headers: &'a HeaderMap,
        uri: &'a Uri,
        method: &'a Method,
        extensions: &'a Extensions,
    ) -> Self {
        RequestView { headers, uri, method: Some(method), extensions: Some(extensions), peer: None }
    }

    /// Returns the request's header fields.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// Returns the URI of the request.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// Returns the method, if it is known.
    pub fn method(&self) -> Option<&'a Method> {
        self.method
    }

    /// Returns what a layer or the server has put into the request's extensions.
    #[inline]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'a T> {
        self.extensions?.get()
    }

    /// Returns the address at the other end of the connection: a [`Peer`], or what axum or tonic put there.
    #[inline]
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.or_else(|| self.peer_from_extensions())
    }

    #[inline]
    fn peer_from_extensions(&self) -> Option<IpAddr> {
        #[cfg(feature = "axum")]
        if let Some(info) = self.extension::<axum::extract::ConnectInfo<SocketAddr>>() {
            return Some(info.0.ip());
        }
        if let Some(Peer(address)) = self.extension() {
            return Some(*address);
        }
        #[cfg(feature = "tonic")]
        if let Some(info) = self.extension::<tonic::transport::server::TcpConnectInfo>() {
            return info.remote_addr().map(|address| address.ip());
        }
        self.extension::<SocketAddr>().map(SocketAddr::ip)
    }

    /// Returns the route as the router knows it (`/users/{id}`), if it tells; otherwise the path itself.
    pub fn route(&self) -> &'a str {
        #[cfg(feature = "axum")]
        if let Some(matched) = self.extension::<axum::extract::MatchedPath>() {
            return matched.as_str();
        }
        self.uri.path()
    }

    /// Returns true if it is a gRPC call, also one of gRPC-web.
    pub fn is_grpc(&self) -> bool {
        grpc_subtype(self.headers).is_some()
    }
}

/// Returns true if these headers are those of a gRPC response, whose status comes in trailers. That of gRPC-web does
/// not: its trailers are the last bytes of its body.
pub(crate) fn has_grpc_trailers(headers: &HeaderMap) -> bool {
    grpc_subtype(headers).is_some_and(|subtype| !subtype.starts_with(b"-web"))
}

/// Returns what follows `application/grpc`, if these headers are a gRPC call's or its response's.
fn grpc_subtype(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(http::header::CONTENT_TYPE)?.as_bytes().strip_prefix(b"application/grpc")
}

impl<'a, B> From<&'a Request<B>> for RequestView<'a> {
    fn from(request: &'a Request<B>) -> Self {
        RequestView {
            headers: request.headers(),
            uri: request.uri(),
            method: Some(request.method()),
            extensions: Some(request.extensions()),
            peer: None,
        }
    }
}

impl RequestAttributes for RequestView<'_> {
    fn header(&self, name: &str) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.headers.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }

    fn peer(&self) -> Option<IpAddr> {
        RequestView::peer(self)
    }

    fn route(&self) -> Option<&str> {
        Some(RequestView::route(self))
    }

    fn principal(&self) -> Option<&str> {
        self.extension::<Authenticated>().map(Authenticated::name)
    }
}
