//! `ratekeeper ratelimit`: in place of the Go service, started by the same variables.
//!
//! - [`RatelimitFlags`]: what has no variable there
//! - `variables`: the environment, and values as Go spells them; `go_duration`: `1m30s`
//! - `listeners`, `redis`, `service`, `statsd`, `xds`: settings by what they are about; `unused`: variables that mean nothing here
//! - `environment`: all of it, as settings; `start`: a server with them

mod environment;
mod flags;
mod go_duration;
mod listeners;
mod redis;
mod service;
mod start;
mod statsd;
mod unused;
mod variables;
mod xds;

pub(super) use flags::RatelimitFlags;
pub(super) use start::run;
pub(super) use xds::is_host_and_port;
