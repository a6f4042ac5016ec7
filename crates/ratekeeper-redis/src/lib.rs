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

mod call;
mod error;
mod link;
mod script;

pub use error::{RedisError, RedisErrorKind};
