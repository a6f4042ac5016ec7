//! The page of the console: plain HTML, CSS and JavaScript, part of the program. Nothing builds it.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode};

use super::reply::{HttpReply, reply};

/// What the page may do: run its own script, wear its own style, ask its own server. Whatever else finds its way into it,
/// such as a key that is markup, is nothing to the browser.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageFile {
    kind: &'static str,
    bytes: &'static [u8],
}

/// Returns the file at a path.
pub(super) fn find(path: &str) -> Option<PageFile> {
    // Every request comes by here.
    if path != "/" && !path.starts_with("/console") {
        return None;
    }
    let kind = match path.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "text/html; charset=utf-8",
    };
    let bytes: &[u8] = match path {
        "/" => include_bytes!("page/index.html"),
        "/console.css" => include_bytes!("page/console.css"),
        "/console.js" => include_bytes!("page/console.js"),
        "/console/chart.js" => include_bytes!("page/console/chart.js"),
        "/console/dom.js" => include_bytes!("page/console/dom.js"),
        "/console/events.js" => include_bytes!("page/console/events.js"),
        "/console/ink.js" => include_bytes!("page/console/ink.js"),
        "/console/key.js" => include_bytes!("page/console/key.js"),
        "/console/notices.js" => include_bytes!("page/console/notices.js"),
        "/console/numbers.js" => include_bytes!("page/console/numbers.js"),
        "/console/plans.js" => include_bytes!("page/console/plans.js"),
        "/console/series.js" => include_bytes!("page/console/series.js"),
        "/console/server.js" => include_bytes!("page/console/server.js"),
        "/console/table.js" => include_bytes!("page/console/table.js"),
        "/console/text.js" => include_bytes!("page/console/text.js"),
        "/console/theme.js" => include_bytes!("page/console/theme.js"),
        "/console/token.js" => include_bytes!("page/console/token.js"),
        "/console/trial.js" => include_bytes!("page/console/trial.js"),
        _ => return None,
    };
    Some(PageFile { kind, bytes })
}

impl PageFile {
    /// Returns the reply that holds it.
    pub(super) fn into_reply(self) -> HttpReply {
        let mut reply = reply(StatusCode::OK, Bytes::from_static(self.bytes));
        let fields = reply.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        // Another version of the server has another page.
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        for (name, value) in SECURE {
            fields.insert(name, HeaderValue::from_static(value));
        }
        reply
    }
}

/// Fields of everything that the console serves.
pub(super) const SECURE: [(HeaderName, &str); 3] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];
