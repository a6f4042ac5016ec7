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
    /// Three fields for each unit that is counted, in the form that clients of language models read:
    /// `X-RateLimit-Limit-Tokens`, `-Remaining-Tokens`, `-Reset-Tokens` and the same of `-Requests`, the reset as a duration
    /// (`6m0s`, `120ms`). A refusal has `Retry-After-Ms` besides, which such clients prefer to whole seconds.
    PerUnit,
    /// Both the IETF fields and those of each unit.
    IetfAndPerUnit,
    /// Writes none of these fields.
    None,
}

impl HeaderDialect {
    pub(crate) fn ietf(self) -> bool {
        matches!(self, HeaderDialect::Ietf | HeaderDialect::Both | HeaderDialect::IetfAndPerUnit)
    }

    pub(crate) fn legacy(self) -> bool {
        matches!(self, HeaderDialect::Legacy | HeaderDialect::Both)
    }

    pub(crate) fn per_unit(self) -> bool {
        matches!(self, HeaderDialect::PerUnit | HeaderDialect::IetfAndPerUnit)
    }
}
