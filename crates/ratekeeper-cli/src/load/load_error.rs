//! Why a target could not be measured.

use std::fmt;
use std::io;

/// Why a target could not be measured.
#[derive(Debug)]
pub struct LoadError {
    /// The target as it was written.
    pub(super) target: String,
    /// What it was spoken to in: the scheme of its URL.
    pub(super) scheme: &'static str,
    pub(super) failure: LoadFailure,
}

/// What went wrong with a target.
#[derive(Debug)]
pub(super) enum LoadFailure {
    /// Nobody accepts connections there.
    Connect(io::Error),
    /// The first bytes that came back, which are not of the protocol; empty if the connection was closed.
    Foreign(String),
    /// The server answered with this error.
    Refused(String),
    /// There was no answer in time.
    Silent,
    /// This machine has no thread or event loop to spare.
    Machine(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoadError { target, scheme, failure } = self;
        write!(f, "{target}: ")?;
        match failure {
            LoadFailure::Connect(error) => {
                write!(f, "cannot connect: {error}; start a server there, for instance by `ratekeeper serve`")
            }
            LoadFailure::Foreign(said) if said.is_empty() => {
                write!(f, "the connection was closed; the server there does not speak {scheme}")
            }
            LoadFailure::Foreign(said) => write!(f, "answered \"{said}\", which is not {scheme}"),
            LoadFailure::Refused(message) => write!(f, "refused the request: {message}"),
            LoadFailure::Silent => write!(f, "no answer in 5 s; check that the server there speaks {scheme}"),
            LoadFailure::Machine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}
