//! Every port on one page: what the engine asks of the world, and what an adapter must give.
//!
//! | port | asked for |
//! |---|---|
//! | [`Store`] | one atomic decision over all rules of a [`Request`] |
//! | [`KeyValue`] | get, compare-and-set, delete: enough to make a [`Store`] of |
//! | [`Clock`] | the time |
//! | [`Plans`] | the plans by name |
//! | [`Observer`] | to be told what was decided, and what failed |
//!
//! A port answers with an [`Answer`]: a value that is there, or a future.

mod answer;
pub(crate) mod breaker;
mod clock;
mod key_value;
mod many;
mod observer;
mod plans;
mod request;
mod store;

pub use answer::Answer;
pub use clock::Clock;
pub use key_value::KeyValue;
pub(crate) use many::acquire_each;
pub use observer::Observer;
pub use plans::Plans;
pub use request::{Grant, Request};
pub use store::Store;
