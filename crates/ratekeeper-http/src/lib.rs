//! Rate limiting over HTTP, for servers and for clients: tower layers that work under axum, tonic, hyper and reqwest.
//!
//! A server that lets each client address through ten times a second, twenty at once, and answers the rest with 429 and
//! a time to come back (feature `axum`):
//!
//! ```no_run
//! # #[cfg(feature = "axum")] mod example {
//! use std::net::SocketAddr;
//! use axum::{Router, routing::get};
//! use ratekeeper_http::{Limit, key::ClientIp};
//!
//! # async fn hello() -> &'static str { "hello" }
//! # async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! let limit = Limit::new("api", "10/s burst 20".parse()?).by(ClientIp::default());
//! let app = Router::new().route("/", get(hello)).layer(limit.layer());
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(()) }
//! # }
//! ```
//!
//! A client that sends at most fifty a second to each host, fewer where the server says so, and tries again what was
//! refused (feature `reqwest`; [`Pace::layer`](client::Pace::layer) is for any other tower client):
//!
//! ```no_run
//! # #[cfg(feature = "reqwest")]
//! # async fn send() -> Result<(), Box<dyn std::error::Error>> {
//! use ratekeeper_http::client::Pace;
//!
//! let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
//!     .with(Pace::new("50/s".parse()?)?.retries(3))
//!     .build();
//! let response = client.get("https://api.example.com/").send().await?;
//! # let _ = response;
//! # Ok(()) }
//! ```
//!
//! | to | take |
//! |---|---|
//! | limit a server: who, how much, what responses say of it | [`Limit`], and the extractors in [`key`] |
//! | limit what is known only afterwards, such as tokens | [`Limit::hold`], [`Estimate`] and [`Spent`] |
//! | limit without tower: keys in, decisions out | [`Gate`] |
//! | keep a client within what servers allow | [`client::Pace`] |
//! | read what any server says of its limits, or write it | [`headers`] |
//!
//! It never opens a connection and never decides whether a request may pass: that is the engine's, in the crate
//! `ratekeeper`, over any of its stores.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `tracing` (default) | mistakes of set-up and failures of the store are logged |
//! | `upgrades` (default, and with `axum`) | connections that hyper upgrades are in flight until they end |
//! | `axum` | axum's peer address and matched path; the decision as an extractor |
//! | `tonic` | tonic's peer address |
//! | `reqwest` | [`client::Pace`] as a `reqwest-middleware` |
//! | `tower-http` | [`client::Pace`] understands whom tower-http's `FollowRedirect` was answered by |
//!
//! # Layout
//!
//! - [`key`]: whose request it is.
//! - `usage`: what a request is expected to take, and took.
//! - `limit`: the settings of a limit, and one request decided; [`gate`]: a limit without a request.
//! - [`server`]: the layer, the response on its way, its body.
//! - [`client`]: pacing, learning, sending again.
//! - [`headers`]: the codec. [`headers::parse`] reads any dialect into [`headers::ServerLimits`];
//!   [`headers::emit`] writes the IETF fields, the legacy ones, or both.

#![forbid(unsafe_code)]

#[cfg(feature = "axum")]
mod axum;
pub mod client;
mod close_signal;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod gate;
pub mod headers;
mod instant;
pub mod key;
mod limit;
mod log;
pub mod server;
mod usage;

pub use gate::{Gate, GateError, GateStatistics, GateTotals};
pub use limit::{
    ChargePolicy, Denied, HoldPolicy, KeeperPlans, Limit, LimitDecision, OwnPlan, PolicyHeaders,
};
pub use usage::{Estimate, Spent};
