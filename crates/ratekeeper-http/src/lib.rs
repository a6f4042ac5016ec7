//! Rate limiting over HTTP: the driving adapters that live in a web server's or a web client's own process.
//!
//! So far it holds the header codec: what a server says about its limits, and what a client understands of the
//! many ways in which servers say it.
//!
//! It never opens a connection, never reads a clock (the caller says what time it is), never sleeps, and never
//! decides whether a request may pass: that is the engine's, in the crate `ratekeeper`.
//!
//! # Layout
//!
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
pub mod gate;
pub mod headers;
pub mod key;
mod limit;
mod log;
pub mod server;

pub use gate::{Gate, GateError, GateStatistics};
pub use limit::{Charge, CostOf, Denied, Limit, LimitDecision};
