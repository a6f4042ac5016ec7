//! The page of the console: three files that are part of the program.

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
    Some(match path {
        "/" => PageFile { kind: "text/html; charset=utf-8", bytes: include_bytes!("page/index.html") },
        "/console.js" => {
            PageFile { kind: "text/javascript; charset=utf-8", bytes: include_bytes!("page/console.js") }
        }
        "/console.css" => {
            PageFile { kind: "text/css; charset=utf-8", bytes: include_bytes!("page/console.css") }
        }
        _ => return None,
    })
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
