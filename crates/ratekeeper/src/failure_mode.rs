//! What is answered instead of a store that fails.

/// What to answer when the store fails. Of several plans the strictest counts, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureMode {
    /// Allow the request, with [`Reason::FailOpen`](crate::Reason::FailOpen).
    #[default]
    Open,
    /// Let a store in this process's memory decide until the real one is back.
    Local,
    /// Deny the request, with [`Reason::FailClosed`](crate::Reason::FailClosed).
    Closed,
    /// Return the error to the caller.
    Error,
}

impl FailureMode {
    /// Returns the word for it in a config file.
    pub const fn word(self) -> &'static str {
        match self {
            FailureMode::Open => "open",
            FailureMode::Local => "local",
            FailureMode::Closed => "closed",
            FailureMode::Error => "error",
        }
    }
}
