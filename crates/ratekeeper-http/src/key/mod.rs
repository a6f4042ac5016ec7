//! Whose request it is: small extractors, and how they combine.
//!
//! | extractor | the key | if the request does not tell |
//! |---|---|---|
//! | [`Global`] | `__global__` | – |
//! | [`ClientIp`] | the peer's address, or one that trusted proxies tell | the peer's address; without that, an error |
//! | [`Header`] | a header's value | `anonymous`; if it tells several, an error |
//! | [`Principal`] | who was authenticated | `anonymous` |
//! | [`Route`] | the matched path, or the path | `/` |
//! | [`Custom`] | what a function returns | `anonymous` |
//! | [`Composite`] | several of them | as each of them says |
//!
//! They need no web framework: each works on every type that has [`RequestAttributes`], of which [`RequestView`] is the
//! one for HTTP requests.
//!
//! A key is written into a [`KeyBuf`] on the stack: extracting one of up to 64 bytes allocates nothing.

mod buffer;
mod cidr;
mod client_ip;
mod composite;
mod custom;
mod error;
mod extractor;
mod forwarded;
mod global;
mod header;
mod principal;
mod request;
mod route;
mod view;

pub use buffer::KeyBuf;
pub use cidr::{Cidr, CidrError};
pub use client_ip::ClientIp;
pub use composite::Composite;
pub use custom::Custom;
pub use error::ExtractError;
pub use extractor::{ANONYMOUS, KeyExtractor};
pub use global::Global;
pub use header::Header;
pub use principal::{Authenticated, Principal};
pub use request::RequestAttributes;
pub use route::Route;
pub(crate) use view::has_grpc_trailers;
pub use view::{Peer, RequestView};
