//! Whole bodies, within bounds.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::body::MAX_BODY;
use super::problem::Problem;

/// What a body must claim to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimedKind {
    /// JSON. A page from elsewhere may not send that without asking first, so it has to be said.
    Json,
    /// Whatever it likes.
    Anything,
}

/// Returns the whole body, if it claims to be JSON and is not too large.
pub(super) async fn whole_body(request: Request<Incoming>) -> Result<Bytes, Problem> {
    read(request, ClaimedKind::Json, MAX_BODY).await
}

/// Returns the whole body, of this kind and at most so many bytes.
pub(super) async fn read(
    request: Request<Incoming>,
    kind: ClaimedKind,
    most: usize,
) -> Result<Bytes, Problem> {
    let headers = request.headers();
    if kind == ClaimedKind::Json && !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::media_type("send `content-type: application/json`"));
    }
    let is_other = |name, plain: &[u8]| {
        headers.get_all(name).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(plain))
    };
    if is_other(CONTENT_ENCODING, b"identity") || is_other(TRANSFER_ENCODING, b"chunked") {
        return Err(Problem::media_type("send the body as it is: it is neither unpacked nor decoded"));
    }
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|len| len > most) {
        return Err(Problem::too_large(most));
    }
    let mut body = request.into_body();
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::malformed(format!("the body breaks off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > most {
            return Err(Problem::too_large(most));
        }
        // Almost every body comes in one piece, and is used as it is.
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([&first[..], &rest].concat().into())
}

fn is_json(value: &HeaderValue) -> bool {
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json") || essence.ends_with(b"+json")
}
