//! A request as a script call, and what comes back as a decision. Nothing here sends anything.
//!
//! ```text
//! group      the rules of a request by the key that holds their states     hash        a hash's fields, as replies carry them
//! question   the call that puts a request to a script                      forgotten   how much a reset has forgotten
//! reply      what a script answers, and the engine's decision of it        repair      a state that the script could not read
//! ```

mod forgotten;
mod group;
mod hash;
mod question;
mod repair;
mod reply;

pub(crate) use group::{KeyContent, RuleGroup, groups, key_content, sort_by_shape};
pub(crate) use hash::{SharedFields, fields_by_state, hash_fields, state_name};
pub(crate) use question::ScriptQuestion;
pub(crate) use repair::{StateLoss, StateRepair};
pub(crate) use reply::{ScriptDecision, ScriptReply};
