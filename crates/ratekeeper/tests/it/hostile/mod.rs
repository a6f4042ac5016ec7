//! The store in memory under attack: real threads, real clocks, floods. Everything is counted from outside, by wall clocks
//! that the store does not read.
//!
//! ```text
//! threads    the bound on the store: one by one, in batches, with instants that are late
//! keeper     the bound through the keeper: plans, several plans, quotas of requests
//! refunds    charges that are held back and given back late, all at once, after a reset
//! history    concurrent histories, and the search for an order that explains them
//! linear     random histories on the store, every algorithm and verb, one rule and several
//! refused    keys that are refused all the time, by many threads and between all verbs
//! flood      a store that is full of live keys
//! room       bytes as well as states, and what is kept for plans
//! late       callers and refunds of the past, in every order, by chosen clocks
//! breaker    observers of a breaker that many threads ask
//! ```
//!
//! Every attack makes a fixed number of calls, and the bounds hold on a busy machine too.

mod breaker;
mod flood;
mod history;
mod keeper;
mod late;
mod linear;
mod refunds;
mod refused;
mod room;
mod threads;
