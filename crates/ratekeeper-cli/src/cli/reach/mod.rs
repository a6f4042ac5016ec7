//! How commands reach a running server: by HTTP, over TLS or not.

mod ask;
mod target;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod trust;

#[cfg(any(test, fuzzing))]
pub(crate) use ask::exercise_answer;
pub(super) use ask::{HttpAnswer, HttpAsk};
pub(super) use target::ServerTarget;
pub(super) use trust::TrustFlags;
