//! Why a server cannot start, or cannot use one of its files.

use std::error::Error;
use std::fmt::{self, Display};

/// Why a server cannot start, or cannot use one of its files: what was wrong, and what would be right.
///
/// The text names the settings as the flags of `ratekeeper serve` spell them. What caused the error, if anything below
/// did, is its [`source`](Error::source); `{:#}` writes the causes too, in one line.
#[derive(Debug)]
pub struct ServerError {
    message: String,
    cause: Option<AnyError>,
}

/// An error of whatever kind.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

impl ServerError {
    /// Returns an error that nothing below has caused.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ServerError { message: message.into(), cause: None }
    }
}

impl Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => f.write_str(&with_causes(self)),
            false => f.write_str(&self.message),
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Returns what an error says, and what all of its causes say, in one line.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Says what failed, of results whose error says only why.
pub(crate) trait Explain<T> {
    /// Returns the value, or an error that says this and is caused by the one there was.
    fn explain<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T, ServerError>;
}

impl<T, E: Into<AnyError>> Explain<T> for Result<T, E> {
    fn explain<M: Into<String>>(self, message: impl FnOnce() -> M) -> Result<T, ServerError> {
        self.map_err(|error| ServerError { message: message().into(), cause: Some(error.into()) })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn causes_are_written_when_they_are_asked_for() {
        let gone: Result<(), _> = Err(io::Error::other("gone"));
        let outer = gone.explain(|| "cannot read it").explain(|| "--snapshot x").unwrap_err();
        assert_eq!(outer.to_string(), "--snapshot x");
        assert_eq!(format!("{outer:#}"), "--snapshot x: cannot read it: gone");
        assert_eq!(format!("{:#}", ServerError::new("alone")), "alone");
        assert!(outer.source().unwrap().source().unwrap().is::<io::Error>(), "a broken pipe must be found");
    }
}
