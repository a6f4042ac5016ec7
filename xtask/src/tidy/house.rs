//! The inside of a crate: which file depends on which, and what follows from it.
//!
//! Layout:
//! - `tree`: a crate as modules with their names; `arrows`: who depends on whom
//! - `circles`: no two files need each other; `floors`: nobody depends on a module above
//! - `orphans`: no file is left over; `graph`: circles in any graph

pub(crate) mod arrows;
pub(crate) mod circles;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod floors;
mod graph;
pub(crate) mod orphans;
pub(crate) mod tree;
