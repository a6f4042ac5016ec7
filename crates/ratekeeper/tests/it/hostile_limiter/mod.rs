//! Limiters under fire: real threads, real clocks and several runtimes at once, with a watchdog. Nothing hangs,
//! everything adds up, and nobody gets more than one caller would.

mod bounds;
mod changes;
mod deadlines;
mod debts;
mod handover;
mod keys;
mod refunds;
mod schedules;
mod support;
mod time;
mod waiters;
