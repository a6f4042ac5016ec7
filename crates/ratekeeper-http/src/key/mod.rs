//! Whose request it is: small extractors, and how they combine.
//!
//! | extractor | the key | if the request does not tell |
//! |---|---|---|
//! | [`Global`] | `__global__` | – |
//! | [`ClientIp`] | the peer's address, or one that trusted proxies tell | the peer's address; without that, an error |
//! | [`Header`] | a header's value | `anonymous`; if it tells several, an error |
//! | [`Principal`] | who was authenticated | `anonymous` |
//! | [`Route`] | the matched path, or the path | – |
//! | [`Custom`] | whatever a function says | `anonymous` |
//! | [`Composite`] | several of them | as each of them says |
//!
//! A key is written into a [`KeyBuf`] that lies on the stack: extracting one takes no memory.

mod buffer;
mod cidr;
mod client_ip;
mod composite;
mod custom;
mod error;
mod forwarded;
mod header;
mod principal;
mod route;
mod view;

pub use buffer::KeyBuf;
pub use cidr::{Cidr, CidrError};
pub use client_ip::ClientIp;
pub use composite::Composite;
pub use custom::Custom;
pub use error::ExtractError;
pub use header::Header;
pub use principal::{Authenticated, Principal};
pub use route::Route;
pub(crate) use view::has_grpc_trailers;
pub use view::{Peer, RequestView};

use std::fmt::Debug;
use std::sync::Arc;

/// The key of those who do not say who they are: they share one limit.
pub const ANONYMOUS: &str = "anonymous";

/// Tells whose request it is.
pub trait KeyExtractor: Send + Sync + Debug {
    /// Appends the key to `key`.
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError>;
}

impl<E: KeyExtractor + ?Sized> KeyExtractor for Arc<E> {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        (**self).extract(request, key)
    }
}

impl<E: KeyExtractor + ?Sized> KeyExtractor for Box<E> {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        (**self).extract(request, key)
    }
}

/// One limit for everybody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

impl KeyExtractor for Global {
    fn extract(&self, _: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        key.push(b"__global__");
        Ok(())
    }
}
