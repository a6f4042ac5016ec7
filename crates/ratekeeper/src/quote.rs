//! Quoting of what was given, in errors that end up in logs and on wires: short and printable.

/// The most characters, or bytes, that are quoted.
const MOST: usize = 64;

/// Returns at most 64 characters of a text, with what cannot be printed escaped.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}

/// Returns at most 64 of these bytes between backticks, with what is not printable ASCII escaped.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let more = if bytes.len() > MOST { "…" } else { "" };
    format!("`{}{more}`", bytes[..bytes.len().min(MOST)].escape_ascii())
}
