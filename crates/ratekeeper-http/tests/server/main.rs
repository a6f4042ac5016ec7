//! The server side, over real sockets and through real frameworks.

mod axum_app;
mod charging;
mod frameworks;
mod gate;
mod in_flight;
mod queueing;
mod refusals;
mod support;
