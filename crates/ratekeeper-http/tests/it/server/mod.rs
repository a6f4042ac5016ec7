//! The server side, over real sockets and through real frameworks.

mod axum_app;
mod charging;
mod frameworks;
mod gate;
mod hang_ups;
mod holding;
mod in_flight;
mod late_refunds;
mod queueing;
mod refusals;
mod remote;
mod settings;
pub(crate) mod support;
mod upgrades;
