//! One limit for many instances: a [`Store`](ratekeeper::port::Store) on Redis or Valkey.
//!
//! One script call decides a request, all rules of all its plans, all or nothing, by the server's clock and no other.
//! The script answers with the states it found and the time it was; the engine's own pure functions make the decision
//! of them. So a store here and a store in memory cannot give different answers to the same question.
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
//! It decides nothing by the clock of this process. It keeps no limit on the server: limits travel with each request,
//! so that a flushed server has lost states, not configuration. It never takes a state that it cannot read for a fresh
//! key without saying so.
//!
//! # Layout
//!
//! ```text
//! store, builder   the store and its settings           link/          how commands get to a server
//! scripted         a store made of scripts              script, call   a script by name; its keys and arguments
//! library          the scripts, composed of parts       question       a request as a call
//! place, encoding  where states are, and how written    reply, heal    what comes back; what was not understood
//! shared           the hash that requests' quotas share  forgotten      how much a reset forgot
//! values           compare-and-set on strings           permits        what is in flight, over all instances
//! inspect          a key explained                      clock          about what time it is on the server
//! error            what a server may answer             forget         all keys that start alike
//! front            a memory of refusals                 differential/  scripts against the engine (tests)
//! ```
//!
//! The scripts are in `scripts/`: `prelude`, `number` and `product` (64 bits in a language of doubles), a time part,
//! a part for each algorithm and each encoding, and `decide`, which puts them to work. A request gets the script of just
//! the parts that it needs.
//!
//! # Features
//!
//! | feature | gives |
//! |---|---|
//! | `tls` | `rediss://` |
//! | `timezones` | calendar windows in named time zones |
//! | `testkit` | a store whose time a test gives |

mod builder;
mod call;
mod clock;
mod encoding;
mod error;
mod forget;
mod forgotten;
mod front;
mod heal;
mod inspect;
mod library;
mod link;
mod permits;
mod place;
mod question;
mod reply;
mod script;
mod scripted;
mod shared;
mod store;
mod values;

#[cfg(test)]
mod differential;

pub use builder::RedisStoreBuilder;
pub use encoding::Encoding;
pub use error::{RedisError, RedisErrorKind};
pub use inspect::{Explained, FieldValue, Found, Inspection};
pub use permits::{Permit, Permits};
pub use store::{Losses, RedisStore};
pub use values::RedisValues;

/// The guide's examples are tests too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/distributed.md")]
struct Guide;
