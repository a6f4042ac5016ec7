//! Any line of a trace, for tests and for fuzzing.

use ratekeeper::Key;

use super::date::DateReader;
use super::format::{KeyField, TraceFormat};
use super::parser::TraceParser;
use super::{access, reference};

/// Reads a line in every format and by every key.
///
/// # Panics
///
/// A line of an access log is read otherwise than slowly, byte by byte; or a key is longer than keys are.
pub(in crate::simulate) fn exercise_line(line: &[u8]) {
    for is_combined in [false, true] {
        let fast = access::parse(line, KeyField::Client, &mut DateReader::default(), is_combined).ok();
        assert_eq!(fast, reference::parse(line, is_combined), "{}", line.escape_ascii());
    }
    let guessed = TraceParser::guess(line);
    for format in TraceFormat::ALL {
        for by in [KeyField::Client, KeyField::User, KeyField::Path, KeyField::All] {
            let mut parser = TraceParser::new(format, by);
            let Ok(entry) = parser.parse(line) else { continue };
            assert!(entry.key.len() <= Key::MAX_LEN && entry.units.iter().count() <= 4);
            assert!(by != KeyField::All || entry.key.is_empty());
            assert!(by != KeyField::Client || guessed.is_some(), "a line that can be read is recognised");
        }
    }
}
