//! The command `ratekeeper`: starts the server, and holds the tools that come with it.
//!
//! The composition root: the one crate that sees all others. It never decides anything by itself: `serve` wires the
//! crate `ratekeeper-server`, and the tools ask the engine in the crate `ratekeeper`.
//!
//! # Layout
//!
//! - `cli`: the commands, each with its flags; [`run`] is all of it; `log`: where logs go
//! - [`simulate`]: replays traces against limits; [`load`]: puts load on a server and measures it
//! - [`inspect`]: decodes stored states; [`headers`]: explains response headers
//! - [`when`]: instants and spans as people read them
//!
//! # Examples
//!
//! What a limit would have done to three requests:
//!
//! ```
//! use ratekeeper_cli::simulate::trace::{KeyField, TraceFormat, TraceParser};
//! use ratekeeper_cli::simulate::{Replay, SimulatedPolicy, TraceSource};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("ratekeeper-cli-{}.txt", std::process::id()));
//! std::fs::write(&path, "0.0 ann\n0.1 ann\n0.2 bob\n")?;
//! let parser = TraceParser::new(TraceFormat::Plain, KeyField::Client);
//! let mut replay = Replay { parser, strict: true, now: std::time::SystemTime::now().into(), checks_units: true };
//! let mut policies = [SimulatedPolicy::parse("1/s")?];
//! replay.run(&TraceSource::File(path.clone()), &mut policies, |_, _, _| Ok(()))?;
//! assert_eq!((policies[0].admitted(), policies[0].denied()), (2, 1));
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod cli;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod headers;
pub mod inspect;
pub mod load;
mod log;
pub mod simulate;
pub mod when;

pub use cli::run;
