//! What the lines of a trace look like.

/// What the lines of a trace look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// `time_seconds [key [cost] [unit=amount…]]`.
    Plain,
    /// The common log format of web servers.
    Common,
    /// The combined log format: the common one, with referer and user agent.
    Combined,
    /// What `ratekeeper serve --record` writes.
    Recorded,
}

impl TraceFormat {
    /// Every format, the most specific first, for guesses.
    pub(super) const ALL: [TraceFormat; 4] =
        [TraceFormat::Combined, TraceFormat::Common, TraceFormat::Recorded, TraceFormat::Plain];

    /// Returns the value of `--format` that selects it.
    pub const fn word(self) -> &'static str {
        match self {
            TraceFormat::Plain => "plain",
            TraceFormat::Common => "common",
            TraceFormat::Combined => "combined",
            TraceFormat::Recorded => "recorded",
        }
    }
}

/// Which part of an access log's line is the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyField {
    /// The address or name of the client, which is the first field.
    #[default]
    Client,
    /// The authenticated user.
    User,
    /// The path of the request, without its query.
    Path,
    /// No part: all requests share one limit.
    All,
}
