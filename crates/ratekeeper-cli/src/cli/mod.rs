//! The command line: each command is a file that says what it takes, and calls what does it.
//!
//! - `command`: all commands as data; `run`: from arguments to exit code; `output`: exit codes, and standard output
//! - `explain`, `explain_lease`: what a plan and its lease mean, for `check`
//! - `reach`: how a running server is reached; `server_flags`: which one, and by which token; `shown`: what it answered
//! - `serve`, `ratelimit`, `check`, `inspect`, `headers`, `simulate`, `bench`, `top`, `key`, `health`, `completions`, `man`:
//!   the commands

mod bench;
mod check;
mod check_rls;
mod command;
mod completions;
mod explain;
mod explain_lease;
mod headers;
mod health;
mod inspect;
mod key;
mod man;
mod output;
mod ratelimit;
mod reach;
mod run;
mod serve;
mod server_flags;
mod shown;
mod simulate;
mod top;

#[cfg(any(test, fuzzing))]
pub(crate) use check::check_config;
#[cfg(any(test, fuzzing))]
pub(crate) use reach::exercise_answer;
pub use run::run;
