//! A client of `ratekeeper serve`, over its MessagePack transport.
//!
//! A few connections are shared by all callers of a runtime; requests of many callers are in flight on one connection at the
//! same time. A lost connection is replaced when somebody next asks. A request that may have been executed is never sent
//! again: its caller gets an error that says so, and decides.
//!
//! ```no_run
//! # async fn ask() -> Result<(), ratekeeper_client::ClientError> {
//! use ratekeeper_client::{Client, RemoteQuota};
//!
//! let client = Client::connect("127.0.0.1:9090").await?;
//! // Takes 1 of 30 per minute, 15 of which may be taken at once.
//! let decision = client.acquire("user:123", RemoteQuota::per_minute(30).burst(15), 1).await?;
//! if !decision.allowed {
//!     println!("retry after {:?}", decision.retry_after);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What cost is known only afterwards is held, and settled by the truth, here or in another process:
//!
//! ```no_run
//! # async fn ask(client: ratekeeper_client::Client) -> Result<(), ratekeeper_client::ClientError> {
//! use std::time::Duration;
//! use ratekeeper_client::{PlanRequest, RemoteAmounts};
//!
//! let estimate = PlanRequest::new("user:123", ["llm"]).amounts(RemoteAmounts::unit("tokens", 5_200));
//! let hold = client.hold(&estimate, Duration::from_secs(60)).await?;
//! if let Some(id) = hold.id {
//!     // The model answers, and says what that took.
//!     client.settle("user:123", id, &RemoteAmounts::unit("tokens", 1_234)).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it never does
//!
//! It decides nothing itself and needs nothing of the engine: the crate depends on no sibling.
//!
//! # Layout, from the ground up
//!
//! - `error`: why a request got no decision; `decision`: what a server decided; `hold_id`: what a hold is ended by;
//!   `ruling`: what a server decided on plans and holds
//! - `quota`: the quota that a request brings, checked before anything is sent; `amounts`: how much of which unit;
//!   `request`: a request by the names of plans
//! - `reply_map`: maps of replies; `frame`: requests to bytes, bytes to replies
//! - `connection`: one connection, and the requests in flight on it
//! - `pool`: the connections of each runtime
//! - `client`: the verbs; `builder`: how a client is set up

#![forbid(unsafe_code)]

mod amounts;
mod builder;
mod client;
mod connection;
mod decision;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod hold_id;
mod pool;
mod quota;
mod reply_map;
mod request;
mod ruling;

pub use amounts::RemoteAmounts;
pub use builder::ClientBuilder;
pub use client::Client;
pub use decision::RemoteDecision;
pub use error::ClientError;
pub use hold_id::RemoteHoldId;
pub use quota::RemoteQuota;
pub use request::PlanRequest;
pub use ruling::{RemoteHold, RemoteHoldState, RemoteOutcome, RemoteRule, RemoteRuling};
