//! Rate limiting over HTTP: the driving adapters that live in a web server's or a web client's own process.
//!
//! So far it holds the header parser: what a client understands of the many ways in which servers tell their limits.
//!
//! It never opens a connection, never reads a clock (the caller says what time it is), never sleeps, and never
//! decides whether a request may pass: that is the engine's, in the crate `ratekeeper`.
//!
//! # Layout
//!
//! - [`headers`]: [`headers::parse`] reads any dialect into [`headers::Limits`].
//!
//! # Example
//!
//! ```
//! use ratekeeper_http::headers;
//! use std::time::{Duration, SystemTime};
//!
//! let mut response = http::HeaderMap::new();
//! response.insert("ratelimit", "\"burst\";r=50;t=30".parse()?);
//! let understood = headers::parse(&response, SystemTime::now());
//! assert_eq!(understood.limits[0].remaining, Some(50));
//! assert_eq!(understood.limits[0].reset, Some(Duration::from_secs(30)));
//! # Ok::<(), http::header::InvalidHeaderValue>(())
//! ```

#![forbid(unsafe_code)]

pub mod headers;
