//! A client of `ratekeeper serve`, over its MessagePack transport.
//!
//! A few connections are shared by all callers of a runtime; requests of many callers are in flight on one connection at the same
//! time. A lost connection is replaced when somebody next asks. A request that may have been executed is never sent
//! again: its caller is told, and decides.
//!
//! ```no_run
//! # async fn ask() -> Result<(), ratekeeper_client::Error> {
//! use ratekeeper_client::Client;
//!
//! let client = Client::connect("127.0.0.1:9090").await?;
//! // Burst 15, 30 in 60 seconds, take 1.
//! let decision = client.throttle("user:123", 15, 30, 60, 1).await?;
//! if !decision.allowed {
//!     println!("retry after {:?}", decision.retry_after);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! - `client`: the pool, and what callers see; `builder`: how it is set up
//! - `link`: one connection, and the requests in flight on it
//! - `frame`: requests to bytes, bytes to replies
//! - `error`: what can go wrong

#![forbid(unsafe_code)]

mod builder;
mod client;
mod error;
mod frame;
mod link;

pub use builder::Builder;
pub use client::{Client, Decision};
pub use error::Error;
