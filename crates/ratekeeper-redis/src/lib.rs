//! One limit for many instances: a [`Store`](ratekeeper::port::Store) on Redis or Valkey.
//!
//! One script call decides a request, all rules of all its plans, by the server's clock and no other.
//!
//! # Layout
//!
//! ```text
//! link/        how commands get to a server        script     a script and the name the server knows it by
//! call         the keys and arguments of one call  error      what a server may answer, and what to do
//! ```

mod builder;
mod call;
mod clock;
mod encoding;
mod error;
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
