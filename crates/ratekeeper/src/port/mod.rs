//! Every port on one page: what the engine asks of the world, and what an adapter must give.
//!
//! | port | asked for |
//! |---|---|
//! | [`Store`] | one atomic decision over all rules of a [`Request`], of a [`HoldRequest`], or of several [`Charge`]s |
//! | [`KeyValue`] | get, compare-and-set, delete: enough to make a [`Store`] of |
//! | [`Clock`] | the time |
//! | [`Plans`] | the plans by name |
//! | [`Observer`] | to be told what was decided, and what failed |
//!
//! A port answers with an [`Answer`]: a value that is there, or a future.

mod amount_error;
mod answer;
pub(crate) mod breaker;
mod charge;
mod clock;
mod grant;
mod hold;
mod key_value;
mod many;
mod observer;
mod plans;
mod request;
mod standing;
mod store;

pub use amount_error::AmountError;
pub use answer::Answer;
pub use charge::{Charge, ChargeAction, ChargeForce, ChargeStanding, Judgment, Whole};
pub use clock::Clock;
pub use grant::Grant;
pub use hold::{
    HoldAction, HoldChange, HoldId, HoldIdError, HoldOutcome, HoldRequest, HoldState, LeaseError,
};
pub use key_value::KeyValue;
pub(crate) use many::acquire_each;
pub use observer::Observer;
pub use plans::Plans;
pub use request::{Request, Share};
pub use standing::Standing;
pub use store::Store;
