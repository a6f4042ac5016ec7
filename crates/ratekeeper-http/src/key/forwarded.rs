//! `X-Forwarded-For`, read from the right: the left end is whatever the client wrote there.

use std::net::{IpAddr, SocketAddr};

use super::request::RequestAttributes;

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const X_REAL_IP: &str = "x-real-ip";

/// Hops that are looked at: a header of 64 KiB holds thousands, and no chain of proxies is that long.
const MAX_HOPS: usize = 64;

/// Returns the addresses of `X-Forwarded-For` from the right, over all lines; `None` where one cannot be read. There is
/// at least one if there is such a header at all.
pub(super) fn from_the_right<R: RequestAttributes + ?Sized>(
    request: &R,
) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = request.header(X_FORWARDED_FOR).rev();
    lines.flat_map(|line| line.rsplit(|byte| *byte == b',')).take(MAX_HOPS).map(address)
}

/// Returns the leftmost address of `X-Forwarded-For`: whatever the client wrote.
pub(super) fn first<R: RequestAttributes + ?Sized>(request: &R) -> Option<IpAddr> {
    address(request.header(X_FORWARDED_FOR).next()?.split(|byte| *byte == b',').next()?)
}

/// Returns what `X-Real-IP` says; `None` if there are several, because then nobody knows who wrote which.
pub(super) fn real_ip<R: RequestAttributes + ?Sized>(request: &R) -> Option<IpAddr> {
    let mut lines = request.header(X_REAL_IP);
    match (lines.next(), lines.next()) {
        (Some(sole), None) => address(sole),
        _ => None,
    }
}

/// Reads an address, with or without a port or brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
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
