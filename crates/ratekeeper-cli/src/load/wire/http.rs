//! `POST /throttle` in HTTP/1.1.

use memchr::memmem;

use super::super::measurement::LoadAnswer;
use super::super::work::ThrottleNumbers;
use super::reply::WireReply;

/// The largest head of a reply, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Returns what stands before and after the key of a request.
pub(super) fn around_key(
    ThrottleNumbers { burst, count, period }: ThrottleNumbers,
    host: &str,
) -> (Vec<u8>, Vec<u8>) {
    let start = "{\"key\":\"";
    let end = format!("\",\"max_burst\":{burst},\"count_per_period\":{count},\"period\":{period}}}");
    let length = start.len() + 20 + end.len();
    let head = format!(
        "POST /throttle HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{start}"
    );
    (head.into_bytes(), end.into_bytes())
}

/// Reads a reply: a status line, a content length, and a body that says whether the request is allowed.
pub(super) fn decode(input: &[u8]) -> WireReply {
    let start = b"HTTP/1.";
    if !input.starts_with(&start[..input.len().min(start.len())]) {
        return WireReply::Foreign;
    }
    let Some(end) = memmem::find(input, b"\r\n\r\n") else {
        return if input.len() > MAX_HEAD { WireReply::Foreign } else { WireReply::Partial };
    };
    let (head, body) = (&input[..end], &input[end + 4..]);
    let Some(length) = content_length(head) else { return WireReply::Foreign };
    let Some(body) = body.get(..length) else { return WireReply::Partial };
    let len = end + 4 + length;
    match head.get(9..12) {
        Some(b"200") if memmem::find(body, b"\"allowed\":true").is_some() => {
            WireReply::Whole(len, LoadAnswer::Allowed)
        }
        Some(b"200") if memmem::find(body, b"\"allowed\":false").is_some() => {
            WireReply::Whole(len, LoadAnswer::Denied)
        }
        Some(status) if status != b"200" => WireReply::error(len, &[status, b" ", body].concat()),
        _ => WireReply::Foreign,
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        is_length.then(|| str::from_utf8(value).ok()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}";
        assert_eq!(decode(whole), WireReply::Whole(whole.len(), LoadAnswer::Allowed));
        for cut in 0..whole.len() {
            assert_eq!(decode(&whole[..cut]), WireReply::Partial, "{cut}");
        }
        assert_eq!(
            decode(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno"),
            WireReply::Error(47, "404 no".to_owned())
        );
        for foreign in [
            &b"-ERR x\r\n"[..],
            b"\0",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7",
        ] {
            assert_eq!(decode(foreign), WireReply::Foreign, "{}", foreign.escape_ascii());
        }
    }

    #[test]
    fn the_length_of_a_request_is_right() {
        let (before_key, after_key) = around_key(ThrottleNumbers { burst: 1, count: 2, period: 3 }, "here");
        let out = [&before_key[..], b"key:0000000000000000", &after_key].concat();
        let end = memmem::find(&out, b"\r\n\r\n").unwrap() + 4;
        assert_eq!(content_length(&out[..end]), Some(out.len() - end));
        let body: serde_json::Value = serde_json::from_slice(&out[end..]).unwrap();
        assert_eq!((&body["max_burst"], &body["period"]), (&1.into(), &3.into()));
    }
}
