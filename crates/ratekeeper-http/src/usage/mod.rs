//! How much of which unit a request is expected to take, and has taken.
//!
//! ```text
//! estimate     Estimate: what a request is expected to take     unit_costs   functions of a request that tell it
//! spent        Spent: what it took                              unit_list    a few units, and so much of each
//! ```

mod estimate;
mod spent;
mod unit_costs;
mod unit_list;

pub use estimate::Estimate;
pub use spent::Spent;

pub(crate) use unit_costs::UnitCosts;
pub(crate) use unit_list::UnitList;
