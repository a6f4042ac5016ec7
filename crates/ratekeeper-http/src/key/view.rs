//! A request as an extractor sees it, whatever its body is.

use std::net::{IpAddr, SocketAddr};

use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The address at the other end of the connection, for servers that have no extension of their own for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer(address.ip())
    }
}

/// A request without its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    headers: &'a HeaderMap,
    uri: &'a Uri,
    method: Option<&'a Method>,
    extensions: Option<&'a Extensions>,
    peer: Option<IpAddr>,
}

impl<'a> RequestView<'a> {
    /// A request of which only this is known.
    pub fn new(headers: &'a HeaderMap, uri: &'a Uri, peer: Option<IpAddr>) -> Self {
        RequestView { headers, uri, method: None, extensions: None, peer }
    }

    /// The headers.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// The URI.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// The method, if it is known.
    pub fn method(&self) -> Option<&'a Method> {
        self.method
    }

    /// What others have put into the request.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&'a T> {
        self.extensions?.get()
    }

    /// The address at the other end of the connection: [`Peer`], or what axum or tonic put there.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.or_else(|| self.peer_from_extensions())
    }

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

    /// The path as the router knows it (`/users/{id}`), if there is one that tells; otherwise the path itself.
    pub fn route(&self) -> &'a str {
        #[cfg(feature = "axum")]
        if let Some(matched) = self.extension::<axum::extract::MatchedPath>() {
            return matched.as_str();
        }
        self.uri.path()
    }

    /// True if it is a gRPC call, also one of gRPC-web.
    pub fn is_grpc(&self) -> bool {
        grpc_subtype(self.headers).is_some()
    }
}

/// True if these headers are those of a gRPC response, whose status comes in trailers. That of gRPC-web does not: its
/// trailers are the last bytes of its body.
pub(crate) fn has_grpc_trailers(headers: &HeaderMap) -> bool {
    grpc_subtype(headers).is_some_and(|subtype| !subtype.starts_with(b"-web"))
}

/// What follows `application/grpc`, if these headers are a gRPC call's or its response's.
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
