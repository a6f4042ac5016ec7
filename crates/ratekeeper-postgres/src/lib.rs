//! One limit for many instances: the [`ratekeeper`] store on PostgreSQL.
//!
//! A row holds what there is to know of one key. The engine decides in this process, on the row as it was last seen, and one
//! statement writes the row back if nobody else has meanwhile; otherwise it returns the row as it is, and the engine decides
//! again. All requests that wait while a statement is under way go with the next one. So there is no third implementation of
//! the algorithms, and every verb of the engine is here: plans of several rules, several plans, units, holds, charges of several
//! keys. `docs/adr/0020-postgres.md` tells why.
//!
//! What it never does: decide by the clock of this machine (it is the server's, as every statement tells it), send a
//! statement twice whose outcome is unknown, charge for a request after it has timed out, keep a caller waiting for longer
//! than the timeout.
//!
//! ```no_run
//! use ratekeeper::store::{Breaker, Guarded};
//! use ratekeeper::{Keeper, Plan, Registry};
//! use ratekeeper_postgres::PostgresStore;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! // Nothing is sent yet: the server may be down, and will be found when it is up.
//! let store = PostgresStore::builder("postgres://ratekeeper@127.0.0.1/limits").build()?;
//! let keeper = Keeper::new(Guarded::new(store, Breaker::default()), Registry::new([Plan::parse("free", "10/s")?]));
//! let ruling = keeper.acquire("user:42", "free", 1).await?;
//! # let _ = ruling; Ok(()) }
//! ```
//!
//! # Layout, from the ground up
//!
//! ```text
//! error          what the server says, as errors of a store
//! server_time    the server's time, as its answers tell it    address     where it is, and how it is reached
//! schema         the table and its function                   seen        rows as they were last seen
//! call           what is asked, by whom                       groups      what must be decided together
//! tls            an encrypted connection                       held_plans  of holds that this process has made
//! counters       what was done
//! session        one connection, with its statements
//! exchange       rows for rows, in one statement
//! worker         decides all that waits, and writes it        housekeeper deletes what has expired, and by prefix
//! crew           the thread that they work on
//! store          the store as programs use it                 builder     its settings
//! ```
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `tls` | `sslmode=require` |
//! | `testkit` | a store whose time a test gives |

mod address;
mod builder;
mod call;
mod counters;
mod crew;
mod error;
mod exchange;
mod groups;
mod held_plans;
mod housekeeper;
mod reserve;
mod schema;
mod seen;
mod server_time;
mod session;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod worker;

pub use builder::PostgresStoreBuilder;
pub use counters::PostgresCounts;
pub use store::PostgresStore;
