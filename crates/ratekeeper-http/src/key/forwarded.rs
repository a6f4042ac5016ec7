//! `X-Forwarded-For`, read from the right: the left end is whatever the client wrote there.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Hops that are looked at: a header of 64 KiB holds thousands, and no chain of proxies is that long.
const MAX_HOPS: usize = 64;

/// The addresses from the right, over all lines of the field; `None` where one cannot be read.
pub(super) fn from_the_right(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter().rev();
    lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')).take(MAX_HOPS).map(address)
}

/// The leftmost address: whatever the client wrote.
pub(super) fn first(headers: &HeaderMap) -> Option<IpAddr> {
    address(headers.get(X_FORWARDED_FOR)?.as_bytes().split(|byte| *byte == b',').next()?)
}

/// What `X-Real-IP` says; nothing if it is there more than once, because then nobody knows who wrote which.
pub(super) fn real_ip(headers: &HeaderMap) -> Option<IpAddr> {
    let mut lines = headers.get_all(X_REAL_IP).iter();
    match (lines.next(), lines.next()) {
        (Some(sole), None) => address(sole.as_bytes()),
        _ => None,
    }
}

/// An address, with or without a port or brackets.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    // The longest address there is, in brackets and with a port, is shorter.
    if text.len() > 64 {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    text.parse().ok().or_else(with_port).or_else(bracketed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read = |text: &str| address(text.as_bytes()).map(|address| address.to_string());
        assert_eq!(read(" 203.0.113.7 ").as_deref(), Some("203.0.113.7"));
        assert_eq!(read("203.0.113.7:8080").as_deref(), Some("203.0.113.7"));
        assert_eq!(read("2001:db8::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(read("[2001:db8::1]:443").as_deref(), Some("2001:db8::1"));
        assert_eq!(read("[2001:db8::1]").as_deref(), Some("2001:db8::1"));
        for bad in ["", "unknown", "_hidden", "203.0.113", "1.2.3.4.5", "\u{e9}"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(address(&[b'1'; 65_536]), None);
    }
}
