//! Who asks: whether that is a page from elsewhere, which a browser on this machine shows.
//!
//! A server on loopback trusts whoever reaches it, and every page that a browser on the machine shows can have it send
//! requests there. Three things keep such pages out, besides that no answer ever allows another origin to read it:
//!
//! - `Host` of a request that comes in by loopback and shows no token is a name of this machine, or an address. A page
//!   whose own name was made to point here (DNS rebinding) has its own name in that field.
//! - `Origin` and `Sec-Fetch-Site`, which pages cannot forge, are those of this server wherever something is changed.
//! - Bodies say that they are JSON, which a page from elsewhere may not say without asking first.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Version};

use super::problem::Problem;
use crate::net::{Connection, FORWARDING_FIELDS};

/// The names that this server is asked by, besides those of every machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostNames(Vec<String>);

impl HostNames {
    /// Returns these names; `own` is what the machine calls itself.
    pub(crate) fn new<'a>(configured: impl IntoIterator<Item = &'a str>, own: Option<&'a str>) -> Self {
        HostNames(configured.into_iter().chain(own).map(str::to_owned).collect())
    }

    /// Returns true if nobody who means another server says this: it is an address, loopback, or a name of this server.
    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let name = host.strip_suffix('.').unwrap_or(host);
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
        is_address || last.eq_ignore_ascii_case("localhost") || self.has(name)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Returns the host of `host:port`.
fn host_of(authority: &str) -> &str {
    parts_of(authority).0
}

/// Returns host and port of `host:port`; no port if there is none.
fn parts_of(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // An address of IPv6 has colons, and stands in brackets if a port follows.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => {
            (host, Some(port))
        }
        _ => (authority, None),
    }
}

/// Returns true if the client is on this machine, and not a proxy there that has passed on what somebody else asks.
pub(super) fn is_local<B>(connection: &Connection, request: &Request<B>) -> bool {
    let is_passed_on = FORWARDING_FIELDS.into_iter().any(|name| request.headers().contains_key(name));
    // Some proxies say nothing, but ask by the old version, which no browser and no other client here does.
    connection.is_local() && !is_passed_on && request.version() != Version::HTTP_10
}

/// Refuses a request by loopback that means another server.
pub(super) fn check_host<B>(
    names: &HostNames,
    connection: &Connection,
    request: &Request<B>,
) -> Result<(), Problem> {
    if !connection.is_local() {
        return Ok(());
    }
    let mut asked = request
        .headers()
        .get_all(HOST)
        .iter()
        .map(text)
        .chain(request.uri().authority().map(|authority| authority.as_str()));
    match asked.find(|authority| !names.knows(authority)) {
        Some(other) => Err(Problem::wrong_host(other)),
        None => Ok(()),
    }
}

/// Refuses what a page of another origin asks for, if that changes something or `is_private`.
pub(super) fn check_origin<B>(
    names: &HostNames,
    request: &Request<B>,
    is_private: bool,
) -> Result<(), Problem> {
    let headers = request.headers();
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    // A page may show a link to what anybody may read, but not have it fetched again and again unseen.
    let is_unseen = headers.get("sec-fetch-mode").map(text) == Some("no-cors");
    if !changes && !is_private && !is_unseen {
        return Ok(());
    }
    let is_own_site = match headers.get("sec-fetch-site").map(text) {
        None | Some("same-origin" | "none") => true,
        Some(_) => false,
    };
    if is_own_site && headers.get_all(ORIGIN).iter().all(|origin| is_own(names, headers, text(origin))) {
        return Ok(());
    }
    Err(Problem::cross_site(headers.get(ORIGIN).map_or("another site", text)))
}

/// Returns true if an origin is this server: the host that the request was sent to, or a name that was configured, which a
/// proxy may serve at a port of its own: the usual one, or that of this server.
fn is_own(names: &HostNames, headers: &HeaderMap, origin: &str) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    // As bytes: one that is no text is nobody's.
    let is_sent_to =
        headers.get(HOST).is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()));
    let (host, port) = parts_of(authority);
    let own_port = headers.get(HOST).and_then(|host| parts_of(text(host)).1);
    is_sent_to || names.has(host) && (port.is_none() || port == own_port)
}

fn text(value: &HeaderValue) -> &str {
    // What is no text is no name.
    value.to_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_loopback_and_names_of_the_server_are_known() {
        let names = HostNames::new(["Limits.Example"], Some("api-1"));
        for known in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "10.1.2.3:80",
            "[::1]:8080",
            "[::1]",
            "localhost",
            "LOCALHOST:8080",
            "x.localhost:1",
            "localhost.",
            "limits.example:443",
            "API-1:8080",
        ] {
            assert!(names.knows(known), "{known}");
        }
        for other in [
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "?",
            "x",
            "1.2.3:80",
        ] {
            assert!(!names.knows(other), "{other}");
        }
    }

    fn origin(method: &str, fields: &[(&str, &str)], is_private: bool) -> bool {
        let mut request = Request::builder().method(method).header("host", "127.0.0.1:8080");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let names = HostNames::new(["limits.example"], None);
        check_origin(&names, &request.body(()).unwrap(), is_private).is_ok()
    }

    #[test]
    fn pages_of_other_origins_change_nothing() {
        assert!(origin("POST", &[], false), "no browser");
        assert!(origin(
            "POST",
            &[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")],
            true
        ));
        assert!(origin("POST", &[("origin", "https://limits.example")], true), "behind a proxy");
        assert!(origin("POST", &[("origin", "http://Limits.example:8080")], true), "at the same port");
        assert!(!origin("POST", &[("origin", "http://limits.example:1")], true), "another server there");
        let unseen = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
        assert!(!origin("GET", &unseen, false), "an image of another page");
        for fields in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "http://127.0.0.1:9999")],
            &[("origin", "null")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("origin", "http://127.0.0.1:8080"), ("origin", "http://evil.example")],
        ] {
            assert!(!origin("POST", fields, false), "{fields:?}");
            assert!(!origin("DELETE", fields, false), "{fields:?}");
            assert!(!origin("GET", fields, true), "{fields:?}");
            assert!(origin("GET", fields, false), "what anybody may read is read by nobody else: {fields:?}");
        }
    }
}
