//! The dialects that a server can speak.

/// Which header fields report what is left. `Retry-After` is no part of a dialect: a refusal always has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeaderDialect {
    /// Writes `RateLimit` and `RateLimit-Policy`, as the IETF draft defines them.
    #[default]
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the reset in seconds from now.
    Legacy,
    /// Both the IETF and the legacy fields.
    Both,
    /// Writes none of these fields.
    None,
}

impl HeaderDialect {
    pub(super) fn ietf(self) -> bool {
        matches!(self, HeaderDialect::Ietf | HeaderDialect::Both)
    }

    pub(super) fn legacy(self) -> bool {
        matches!(self, HeaderDialect::Legacy | HeaderDialect::Both)
    }
}
