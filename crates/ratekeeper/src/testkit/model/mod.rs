//! The reference model: every algorithm as the law (docs/semantics.md §3) words it, slowly and exactly.
//!
//! An algorithm's file here says only when a cost passes, what passing changes, and what a fresh key looks like.
//! The numbers of an answer are not computed by formulas, they are *found*: `retry_after` by searching for the first
//! instant at which the predicate holds, `remaining` for the largest cost that passes, `reset_after` for the first
//! instant at which the state equals a fresh key's. Whatever shortcut the engine takes must come to the same.
//!
//! Instants are `i128` and amounts are fractions of unbounded integers: nothing here rounds, saturates or wraps.
//! No code is shared with the algorithms, except the windows of named time zones.
//!
//! | file | remembers |
//! |---|---|
//! | `gcra` | the theoretical arrival time |
//! | `token_bucket` | tokens as a fraction, and when they were counted |
//! | `leaky_bucket` | a level as a fraction, and when it was read |
//! | `fixed_window` | a count and its window's start; `calendar` walks the years |
//! | `sliding_window` | two counts, and where the slot began |
//! | `sliding_log` | a plain list |
//! | `charge_model` | all keys that may be charged together |
//! | `plan_model` | a model for each rule: costs of their own, all or nothing, and shadow |

mod calendar;
mod charge_model;
mod fixed_window;
mod gcra;
mod law;
mod leaky_bucket;
mod model;
mod plan_model;
mod search;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use charge_model::{ChargeAnswer, ChargeModel};
pub use model::{Model, ModelAnswer};
pub use plan_model::{PlanAnswer, PlanGrant, PlanModel};
