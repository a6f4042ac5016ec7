//! Headers as text: the `Name: value` lines that `curl -sI` prints.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::retry_after::RETRY_AFTER_MS;

/// Fields kept of one block. Only fields that can matter are counted.
const MAX_FIELDS: usize = 1024;

/// The last header block of `text`: of a chain of redirects, the answer that the caller ends up with.
///
/// A status line starts a block and an empty line ends it. After that, text is a body until the next status
/// line; only if there never was a status line do headers after an empty line start a block. A line that is no
/// header is skipped. Lines may end in LF or CRLF and be indented.
pub(crate) fn last_block(text: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut status_seen = false;
    let mut ended = false;
    for line in text.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            ended = true;
        } else if line.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"HTTP/")) {
            headers.clear();
            (status_seen, ended) = (true, false);
        } else if ended && status_seen {
            // A body.
        } else if let Some((name, value)) = field(line) {
            if ended {
                headers.clear();
                ended = false;
            }
            if matters(&name) && headers.len() < MAX_FIELDS {
                // Fails only when the map is full, far above the bound.
                let _ = headers.try_append(name, value);
            }
        }
    }
    headers
}

fn field(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|&b| b == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
    Some((name, value))
}

/// Whether any reader looks at this field, so that the others need no memory.
fn matters(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "date" | "age" | "retry-after" | "x-shopify-shop-api-call-limit")
        || RETRY_AFTER_MS.contains(&name)
        || ["ratelimit", "x-ratelimit-", "x-rate-limit-", "anthropic-ratelimit-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages(text: &str) -> Vec<String> {
        let headers = last_block(text.as_bytes());
        headers.get_all("age").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_last_block_counts() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nAge: 1\r\nAge: 2\r\n\r\n", &["1", "2"][..]),
            ("HTTP/2 301\nage: 1\n\nHTTP/2 200\nage: 2\n\n", &["2"]),
            ("HTTP/2 301\nage: 1\nHTTP/2 200\nage: 2", &["2"]),
            ("HTTP/2 301\nage: 1\n\nHTTP/2 200\n\n", &[]),
            ("HTTP/2 200\nage: 1\n\nage: 9 (this is a body)\n", &["1"]),
            ("age: 1\n\n\nage: 2\n\n", &["2"]),
            ("\n\n  AGE : no\n  AGE:3 \n", &["3"]),
            ("age: 1\nnot a header\n: no name\nage 7\n", &["1"]),
            ("age:", &[""]),
            ("", &[]),
        ] {
            assert_eq!(ages(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bounded() {
        assert_eq!(ages(&"age: 1\n".repeat(MAX_FIELDS + 1)).len(), MAX_FIELDS);
        let many: String = (0..MAX_FIELDS * 2).map(|n| format!("x-other-{n}: 1\n")).collect();
        assert_eq!(ages(&format!("{many}age: 5")), ["5"]);
    }
}
