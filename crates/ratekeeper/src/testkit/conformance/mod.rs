//! The suite that every store passes: the same question gets the same answer, wherever state lives.
//!
//! ```text
//! suite    what is examined           walks         every verb in a random order
//! bench    the store and its clock    waits         waiting exactly as long as it was told
//! random                              shares        units, and rules in shadow
//! changes  quotas that change         debits        what is charged without asking
//! keys     no key misses another's    suite_model   what the pure algorithms answer
//! grants   in part, and given back
//! holds    taken, ended, run out      hold_walks    the same in a random order
//!                                     hold_model    a list of holds
//! charges  of several keys together   charge_walks  the same in a random order
//!                                     suite_charges the law of charges, as it is worded
//! ```
//!
//! ```
//! use ratekeeper::testkit::{FakeClock, conformance};
//! use ratekeeper::{MemoryStore, Timestamp};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let clock = FakeClock::at(Timestamp::from_secs(1_761_884_055));
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! conformance::check(&conformance::Bench::new(&store, &clock)).await;
//! # }
//! ```

mod bench;
mod changes;
mod charge_walks;
mod charges;
mod debits;
mod grants;
mod hold_model;
mod hold_walks;
mod holds;
mod keys;
mod random;
mod shares;
mod suite;
mod suite_charges;
mod suite_model;
mod waits;
mod walks;

pub use bench::Bench;
pub use suite::{check, check_charges, check_holds};
