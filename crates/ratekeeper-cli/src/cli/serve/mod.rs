//! `ratekeeper serve`: what flags, environment and file say, laid over each other, and a server that is started with it.
//!
//! - [`ServeFlags`]: the flags and their twins in the environment; `words`, `breaker_flag`: values of flags
//! - `layers`: one setting, from the flag, the file or the default, and how a mistake in it is named
//! - `transports`, `store`, `breaker`, `tokens`, `limits`, `record`, `otlp`, `rls`, `xds`: the settings by what they are about; `settings`: all of them
//! - `start`: a server with these settings

mod breaker;
mod breaker_flag;
mod flags;
mod layers;
mod limits;
mod otlp;
mod record;
mod rls;
mod settings;
mod start;
mod store;
mod tokens;
mod transports;
mod words;
mod xds;

pub(super) use flags::ServeFlags;
pub(super) use settings::check;
pub(super) use start::{run, start};
