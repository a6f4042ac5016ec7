//! Inline commands: words on a line, as people type them into `nc`.

use super::framing_error::FramingError;

/// Splits a line (without its LF) into words, and calls `push` with the start and the end of each.
///
/// A word may stand in single or double quotes. Escapes are refused, because a word is a range of the buffer.
pub(super) fn split(
    line: &[u8],
    mut push: impl FnMut(usize, usize) -> Result<(), FramingError>,
) -> Result<(), FramingError> {
    let mut at = 0;
    let mut is_first = true;
    loop {
        at += line[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let Some(first) = line.get(at) else { return Ok(()) };
        let (start, end, next) = match first {
            quote @ (b'"' | b'\'') => quoted(line, at, *quote)?,
            _ => {
                let len = line[at..].iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
                (at, at + len, at + len)
            }
        };
        if is_first && is_http(&line[start..end]) {
            return Err(FramingError::Http);
        }
        push(start, end)?;
        (at, is_first) = (next, false);
    }
}

fn quoted(line: &[u8], at: usize, quote: u8) -> Result<(usize, usize, usize), FramingError> {
    let start = at + 1;
    let len = line[start..].iter().position(|byte| *byte == quote).ok_or(FramingError::UnbalancedQuotes)?;
    let end = start + len;
    if line[start..end].contains(&b'\\') {
        return Err(FramingError::EscapedInline);
    }
    match line.get(end + 1) {
        None => Ok((start, end, end + 1)),
        Some(byte) if byte.is_ascii_whitespace() => Ok((start, end, end + 1)),
        Some(_) => Err(FramingError::UnbalancedQuotes),
    }
}

/// A web page can make a browser send these to any port, with commands in the body.
fn is_http(word: &[u8]) -> bool {
    [&b"GET"[..], b"POST", b"PUT", b"HEAD", b"OPTIONS", b"Host:"]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<&str>, FramingError> {
        let mut words = Vec::new();
        split(line.as_bytes(), |start, end| {
            words.push(&line[start..end]);
            Ok(())
        })?;
        Ok(words)
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(words("PING\r").unwrap(), ["PING"]);
        assert_eq!(words("  a  'b c' \"\" d\t").unwrap(), ["a", "b c", "", "d"]);
        assert_eq!(words(" \r").unwrap(), [""; 0]);
        assert_eq!(words("a 'b").unwrap_err(), FramingError::UnbalancedQuotes);
        assert_eq!(words("a 'b'c").unwrap_err(), FramingError::UnbalancedQuotes);
        assert_eq!(words(r#"a "b\n""#).unwrap_err(), FramingError::EscapedInline);
        assert_eq!(words("POST /throttle HTTP/1.1\r").unwrap_err(), FramingError::Http);
    }
}
