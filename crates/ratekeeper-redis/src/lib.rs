//! One limit for many instances: a [`Store`](ratekeeper::port::Store) on Redis or Valkey.
//!
//! One script call decides a request, all rules of all its plans, all or nothing, by the server's clock and no other.
//! The script answers with the states that it found and the time of the decision; the engine's own pure functions make the
//! decision of them. So a store here and a store in memory cannot give different answers to the same question.
//!
//! ```no_run
//! use ratekeeper::{Cost, Keeper, Key, Plan, Registry};
//! use ratekeeper_redis::RedisStore;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
//! let plans = Registry::new([Plan::parse("free", "10/s burst 20; 1000/day")?]);
//! let keeper = Keeper::new(store, plans);
//! let decision = keeper.acquire(Key::new("user:42")?, "free", Cost::ONE).await?;
//! assert!(decision.allowed && decision.remaining == 19);
//! # Ok(()) }
//! ```
//!
//! # What it never does
//!
//! It decides nothing by the clock of this process. It keeps no limit on the server: limits travel with each request, so that
//! a flushed server has lost states, not configuration. It never takes a state that it cannot read for a fresh key without
//! logging it.
//!
//! # Layout, from the ground up
//!
//! ```text
//! error, encoding     what can go wrong; the two ways to write a state
//! script/             the scripts, one for each shape of a request, and the calls that run them
//! exchange/           a request as a call, what comes back as a decision
//! link/               how commands get to a server, or to the right one of many
//! server_clock        a guess at the server's time      losses    the states that had to be discarded
//! forget              all keys that start alike
//! hold_cache          the holds that this process has made
//! scripted            the store made of scripts
//! holding, charging   its holds; charges of several keys that are judged together
//! findings            what was found of them so far
//! owned_charges       charges that outlive whoever asked for them
//! permits             concurrency limits that instances share
//! values              compare-and-set on strings        inspect   what is under a key
//! held_key            what is held for a key
//! store, builder      the store as programs use it, and its settings
//! envoyproxy          fixed windows in the counters of envoyproxy/ratelimit
//! differential/       scripts against the engine (tests)
//! ```
//!
//! A request's verb, and the algorithms and encodings of its rules, are its shape. For each shape in use a script is written,
//! straight-line Lua that takes the numbers as arguments. `scripts/` has what each algorithm says, section by section, and
//! functions for what is rare. A server sees only the shapes in use.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `tls` | `rediss://` |
//! | `timezones` | calendar windows in named time zones |
//! | `testkit` | a store whose time a test gives |

mod builder;
mod charging;
mod encoding;
mod envoyproxy;
mod error;
mod exchange;
mod findings;
mod forget;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod held_key;
mod hold_cache;
mod holding;
mod inspect;
mod link;
mod losses;
mod owned_charges;
mod permits;
mod script;
mod scripted;
mod server_clock;
mod store;
mod tls_files;
mod values;

#[cfg(test)]
mod differential;

pub use builder::RedisStoreBuilder;
pub use encoding::Encoding;
pub use envoyproxy::EnvoyproxyStore;
pub use error::{RedisError, RedisErrorKind};
pub use held_key::{InspectedHold, InspectedHolds};
pub use inspect::{Explained, FieldValue, InspectedContent, Inspection};
pub use losses::Losses;
pub use permits::{RedisPermit, RedisPermits};
pub use store::RedisStore;
pub use tls_files::RedisTls;
pub use values::RedisValues;
