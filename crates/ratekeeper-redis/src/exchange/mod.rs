//! A request as a script call, and what comes back as a decision. Nothing here sends anything.
//!
//! ```text
//! group      the rules of a request by the key that holds their states     hash        a hash's fields, as replies carry them
//! question   the call that puts a request to a script                      forgotten   how much a reset has forgotten
//! reply      what a script answers, and the engine's decision of it        repair      a state that the script could not read
//! judging    the call that puts several charges to a script                judged      the engine's judgment of them
//! held_rules a rule as a hold sees it, and what is held of each            hold_body   what is remembered of a hold
//! held_reply the engine's decision about a hold                            numbers     numbers as scripts read them
//! ```

mod forgotten;
mod group;
mod hash;
mod held_reply;
mod held_rules;
mod hold_body;
mod judged;
mod judging;
mod numbers;
mod question;
mod repair;
mod reply;

pub(crate) use group::{HOLDS, KeyContent, LEASES, RuleGroup, groups, key_content, sort_by_shape};
pub(crate) use hash::{SharedFields, fields_by_state, hash_fields, state_name};
pub(crate) use held_reply::answer_again;
pub(crate) use held_rules::HeldRules;
pub(crate) use hold_body::{EndedHold, HoldContents, LiveHold, lapsed_holds, natural};
pub(crate) use judged::{ChargeOver, FoundCharge, RuleEffect};
pub(crate) use judging::{GroupedCharge, JudgeCall, KnownWhole};
pub(crate) use question::{HeldQuestion, ScriptQuestion};
pub(crate) use repair::{StateLoss, StateRepair};
pub(crate) use reply::{ScriptDecision, ScriptReply};
