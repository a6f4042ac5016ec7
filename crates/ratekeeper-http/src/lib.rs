//! Rate limiting over HTTP: the driving adapters that live in a web server's or a web client's own process.
//!
//! [`Limit`] is the server side: a tower layer that limits axum, tonic, hyper or anything else that is a tower service.
//! [`client::Pace`] is the client side: a tower layer, and a `reqwest-middleware`, that keeps within what servers
//! allow. [`Gate`] is what the server side stands on, without any framework.
//!
//! It never opens a connection and never decides whether a request may pass: that is the engine's, in the crate
//! `ratekeeper`, over any of its stores.
//!
//! # Layout
//!
//! - [`key`]: whose request it is.
//! - `limit`: the settings of a limit, and one request decided; [`gate`]: the same without a request.
//! - [`server`]: the layer, the response on its way, its body.
//! - [`client`]: pacing, learning, sending again.
//! - [`headers`]: the codec. [`headers::parse`] reads any dialect into [`headers::Limits`];
//!   [`headers::emit`] writes the IETF fields, the legacy ones, or both.
//!
//! # Example
//!
//! A server tells where a caller stands, and a client understands it:
//!
//! ```
//! use ratekeeper_http::headers::{self, Dialect, Policy, PolicyField, Standing, emit};
//! use std::time::{Duration, SystemTime};
//!
//! // Once, at start-up:
//! let policies = PolicyField::new(&[Policy::new("burst", 100).window(Duration::from_secs(60))])?;
//!
//! // Per response:
//! let mut response = http::HeaderMap::new();
//! let standing = Standing {
//!     name: &policies.names()[0],
//!     limit: 100,
//!     remaining: 50,
//!     reset: Some(Duration::from_secs(30)),
//! };
//! emit::write(&mut response, Dialect::Ietf, &policies, &[standing]);
//! assert_eq!(response["ratelimit"], r#""burst";r=50;t=30"#);
//!
//! // On the other side:
//! let understood = headers::parse(&response, SystemTime::now());
//! assert_eq!(understood.limits[0].name.as_deref(), Some("burst"));
//! assert_eq!(understood.limits[0].limit, Some(100));
//! assert_eq!(understood.limits[0].remaining, Some(50));
//! assert_eq!(understood.limits[0].reset, Some(Duration::from_secs(30)));
//! # Ok::<(), headers::FieldError>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
pub mod client;
mod closing;
pub mod gate;
pub mod headers;
mod instant;
pub mod key;
mod limit;
mod log;
pub mod server;

pub use gate::{Gate, GateError, GateStatistics, GateTotals};
pub use limit::{Charge, Denied, Limit, LimitDecision, Told};

/// The README's examples are tests too; this crate sees all that they use.
#[cfg(all(doctest, feature = "axum", feature = "reqwest"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The guide's examples are tests too, and all other pages'.
#[cfg(all(doctest, feature = "axum", feature = "reqwest"))]
mod guide {
    #[doc = include_str!("../../../docs/guide/http.md")]
    struct Http;
    #[doc = include_str!("../../../docs/guide/migrate.md")]
    struct Migrate;
}
