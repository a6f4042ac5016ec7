//! Why a request got no decision.

use std::fmt;
use std::io;
use std::time::Duration;

/// The most of a server's own words that is repeated, in characters: less than a kilobyte, whatever they are.
const MOST_TOLD: usize = 240;

/// The reason why a request got no decision.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// A part of the request cannot be right for any server. Nothing was sent.
    Invalid {
        /// The part: `key`, `burst`, `rate`, `period`, `cost`, `plans`, `units`, `amount`, `lease` or `id`.
        field: &'static str,
        /// Its value; for a key, how many bytes it has.
        value: String,
        /// What would be right instead.
        remedy: &'static str,
    },
    /// There is no connection and none could be made. Nothing was sent.
    Connect(io::Error),
    /// The server answered that it will not decide this request, and why: one line, without its end if it is long.
    Refused(String),
    /// No answer came within this time. The request may have been executed.
    Timeout(Duration),
    /// The connection was lost before the answer came. The request may have been executed.
    Lost(io::ErrorKind),
    /// The server sent bytes that are not an answer. The request may have been executed.
    Malformed,
}

impl ClientError {
    /// Returns what a server has said as a refusal. Whoever answers there could say anything, and this ends up in logs.
    pub(crate) fn refused(why: &str) -> Self {
        let letters = why.chars().take(MOST_TOLD);
        let mut line: String =
            letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
        if why.chars().nth(MOST_TOLD).is_some() {
            line.push('…');
        }
        ClientError::Refused(line)
    }

    /// Returns true if the request may have been executed all the same: sending it again may charge twice.
    pub fn may_have_been_executed(&self) -> bool {
        matches!(self, ClientError::Timeout(_) | ClientError::Lost(_) | ClientError::Malformed)
    }

    /// Returns true if the same request may be answered later without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, ClientError::Connect(_) | ClientError::Timeout(_) | ClientError::Lost(_))
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Invalid { field, value, remedy } => write!(f, "{field}: {value}; {remedy}"),
            ClientError::Connect(error) => write!(f, "cannot connect: {error}"),
            ClientError::Refused(why) => write!(f, "the server refused the request: {why}"),
            ClientError::Timeout(after) => {
                write!(f, "no answer within {after:?}; the request may have been executed")
            }
            ClientError::Lost(kind) => {
                write!(f, "connection lost ({kind}); the request may have been executed")
            }
            ClientError::Malformed => {
                f.write_str("cannot parse the answer; the request may have been executed")
            }
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Connect(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_short_line() {
        let told = |why: &str| ClientError::refused(why).to_string();
        assert_eq!(told("wrong token"), "the server refused the request: wrong token");
        assert_eq!(told("a\r\nb"), "the server refused the request: a\u{fffd}\u{fffd}b");
        let long = told(&"\u{1f980}".repeat(10_000));
        assert!(long.len() <= 1024 && long.ends_with('…'), "{long}");
    }
}
