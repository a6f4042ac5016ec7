//! Keys by the client's address.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::buffer::KeyBuf;
use super::cidr::{Cidr, mask};
use super::error::ExtractError;
use super::extractor::KeyExtractor;
use super::forwarded;
use super::request::RequestAttributes;

/// The client's address: the peer's, unless you name the proxies between.
///
/// IPv6 clients are limited by their network, /64 unless said otherwise: one client has all addresses of it. An IPv4
/// address that is written as an IPv6 one (`::ffff:192.0.2.1`) counts as the IPv4 address.
///
/// # Examples
///
/// ```
/// use ratekeeper_http::key::ClientIp;
/// let direct = ClientIp::default();
/// let behind_a_load_balancer = ClientIp::behind_proxies(1);
/// let behind_any_of_ours = ClientIp::trusting(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]);
/// # let _ = (direct, behind_a_load_balancer, behind_any_of_ours);
/// # Ok::<(), ratekeeper_http::key::CidrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    source: AddressSource,
    ipv6_prefix: u32,
}

#[derive(Clone, Debug)]
enum AddressSource {
    Peer,
    NthFromRight(usize),
    Trusted(Vec<Cidr>),
    SpoofableRealIp,
    SpoofableFirst,
}

impl Default for ClientIp {
    fn default() -> Self {
        ClientIp { source: AddressSource::Peer, ipv6_prefix: 64 }
    }
}

impl ClientIp {
    /// Takes the n-th address of `X-Forwarded-For` from the right: for exactly `proxies` proxies, each of which appends
    /// one. If there are fewer addresses, or that one cannot be read, takes the peer's; for 0 always.
    pub fn behind_proxies(proxies: usize) -> Self {
        ClientIp { source: AddressSource::NthFromRight(proxies), ..Self::default() }
    }

    /// Takes the address that proxies in these networks tell: `X-Forwarded-For`, then `X-Real-IP`, then the peer.
    ///
    /// Headers are believed only if the peer is in one of the networks; from anybody else the peer's address counts,
    /// whatever the headers say. Of `X-Forwarded-For` the address is the first from the right that is in none of the
    /// networks; where it cannot be read, the last one that could be. `X-Real-IP` counts only if there is no
    /// `X-Forwarded-For` at all. So each proxy that is named here must append to `X-Forwarded-For`, or remove that and
    /// set `X-Real-IP`: what it passes on unchanged is the client's word.
    pub fn trusting(networks: impl IntoIterator<Item = Cidr>) -> Self {
        ClientIp { source: AddressSource::Trusted(networks.into_iter().collect()), ..Self::default() }
    }

    /// Like [`trusting`](ClientIp::trusting), with the private networks, the loopback and the link-local ones:
    /// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 127.0.0.0/8, 169.254.0.0/16, ::1, fc00::/7 and fe80::/10. For servers
    /// that only proxies can reach from there: **every machine in these networks is believed**.
    pub fn trusting_private_networks() -> Self {
        Self::trusting(Cidr::PRIVATE)
    }

    /// Takes what `X-Real-IP` says. Unless a proxy sets it on every request, **anybody can write any address there**.
    pub fn spoofable_real_ip() -> Self {
        ClientIp { source: AddressSource::SpoofableRealIp, ..Self::default() }
    }

    /// Takes the leftmost address of `X-Forwarded-For`. **Anybody can write any address there.**
    pub fn spoofable_first_forwarded() -> Self {
        ClientIp { source: AddressSource::SpoofableFirst, ..Self::default() }
    }

    /// Sets how many bits of an IPv6 address count; at most 128. 64 by default.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u32) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// Returns the client's address, before it is masked; `None` if neither the peer nor a header tells it.
    pub fn address<R: RequestAttributes + ?Sized>(&self, request: &R) -> Option<IpAddr> {
        let told = match &self.source {
            AddressSource::Peer | AddressSource::NthFromRight(0) => return request.peer(),
            AddressSource::NthFromRight(nth) => forwarded::from_the_right(request).nth(nth - 1).flatten(),
            AddressSource::Trusted(networks) => return trusted(networks, request),
            AddressSource::SpoofableRealIp => forwarded::real_ip(request),
            AddressSource::SpoofableFirst => forwarded::first(request),
        };
        told.or_else(|| request.peer())
    }
}

fn trusted<R: RequestAttributes + ?Sized>(networks: &[Cidr], request: &R) -> Option<IpAddr> {
    let is_trusted = |address: &IpAddr| networks.iter().any(|network| network.contains(*address));
    let mut client = request.peer()?;
    if !is_trusted(&client) {
        return Some(client);
    }
    let mut hops = forwarded::from_the_right(request).peekable();
    if hops.peek().is_none() {
        return forwarded::real_ip(request).or(Some(client));
    }
    while is_trusted(&client)
        && let Some(Some(hop)) = hops.next()
    {
        client = hop;
    }
    Some(client)
}

impl<R: RequestAttributes + ?Sized> KeyExtractor<R> for ClientIp {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        match self.address(request).ok_or(ExtractError::NoPeer)?.to_canonical() {
            IpAddr::V4(address) => push_v4(address, key),
            IpAddr::V6(address) => push_v6(address, self.ipv6_prefix, key),
        }
        Ok(())
    }
}

/// The decimal digits of every octet, and a dot behind them.
static OCTETS: [[u8; 4]; 256] = octets();

const fn octets() -> [[u8; 4]; 256] {
    let mut table = [[b'.'; 4]; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut rest = octet;
        let mut place = digits(octet);
        while place > 0 {
            place -= 1;
            table[octet][place] = b"0123456789"[rest % 10];
            rest /= 10;
        }
        octet += 1;
    }
    table
}

/// Returns how many digits an octet has.
const fn digits(octet: usize) -> usize {
    1 + (octet > 9) as usize + (octet > 99) as usize
}

/// By hand and from a table, because this is most of what the key of an ordinary request costs.
fn push_v4(address: Ipv4Addr, key: &mut KeyBuf) {
    let mut text = [0; 16];
    let mut len = 0;
    for octet in address.octets() {
        // All four bytes are copied, which is cheaper than as many as count; the next octet overwrites the others.
        text[len..len + 4].copy_from_slice(&OCTETS[usize::from(octet)]);
        len += digits(usize::from(octet)) + 1;
    }
    // Without the last dot.
    key.push_short(&text, len - 1);
}

fn push_v6(address: Ipv6Addr, prefix: u32, key: &mut KeyBuf) {
    let network = Ipv6Addr::from_bits(address.to_bits() & mask(prefix));
    // Writing to a key cannot fail.
    let _ = if prefix == 128 { write!(key, "{network}") } else { write!(key, "{network}/{prefix}") };
}

#[cfg(test)]
mod tests {
    use super::super::view::{Peer, RequestView};
    use super::*;

    fn key(by: &ClientIp, peer: Option<&str>, forwarded: &[&str]) -> Result<String, ExtractError> {
        let mut request = http::Request::new(());
        for line in forwarded {
            request.headers_mut().append("x-forwarded-for", line.parse().unwrap());
        }
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer.parse().unwrap()));
        }
        let key = by.key(&RequestView::from(&request))?;
        Ok(String::from_utf8(key.as_bytes().to_vec()).unwrap())
    }

    fn of(by: &ClientIp, forwarded: &[&str]) -> String {
        key(by, Some("10.0.0.1"), forwarded).unwrap()
    }

    #[test]
    fn the_peer_counts_whatever_the_headers_say() {
        assert_eq!(of(&ClientIp::default(), &["203.0.113.7"]), "10.0.0.1");
        assert_eq!(key(&ClientIp::default(), None, &["203.0.113.7"]), Err(ExtractError::NoPeer));
    }

    #[test]
    fn addresses_are_written_as_they_are_printed() {
        for octet in 0..=255 {
            for address in [Ipv4Addr::new(octet, 0, 255, octet), Ipv4Addr::new(9, octet, 99, 100)] {
                // Also where the buffer has little room left, or none.
                for taken in [0, 30, 44, 48, 49, 58, 64, 70] {
                    let mut key = KeyBuf::new();
                    key.push(&vec![b'k'; taken]);
                    push_v4(address, &mut key);
                    let expected = format!("{}{address}", "k".repeat(taken));
                    assert_eq!(key.as_bytes(), expected.as_bytes(), "behind {taken}");
                }
            }
        }
    }

    #[test]
    fn proxies_are_counted_from_the_right() {
        let spoofed = ["6.6.6.6, 203.0.113.7", "198.51.100.2"];
        assert_eq!(of(&ClientIp::behind_proxies(0), &spoofed), "10.0.0.1");
        assert_eq!(of(&ClientIp::behind_proxies(1), &spoofed), "198.51.100.2");
        assert_eq!(of(&ClientIp::behind_proxies(2), &spoofed), "203.0.113.7");
        assert_eq!(of(&ClientIp::behind_proxies(4), &spoofed), "10.0.0.1", "fewer than expected");
        assert_eq!(of(&ClientIp::behind_proxies(1), &["6.6.6.6, what"]), "10.0.0.1", "unreadable");
        let long = "6.6.6.6,".repeat(8_192);
        assert_eq!(of(&ClientIp::behind_proxies(1), &[&long]), "10.0.0.1", "64 KiB that end in nothing");
    }

    #[test]
    fn trusted_networks_are_skipped() {
        let by = ClientIp::trusting(["10.0.0.0/8".parse().unwrap()]);
        assert_eq!(of(&by, &["6.6.6.6, 203.0.113.7, 10.0.0.9"]), "203.0.113.7");
        assert_eq!(of(&by, &["6.6.6.6, junk, 10.0.0.9"]), "10.0.0.9");
        assert_eq!(of(&by, &[]), "10.0.0.1");
        assert_eq!(key(&by, Some("192.0.2.1"), &["6.6.6.6"]).as_deref(), Ok("192.0.2.1"), "not our proxy");
    }

    /// The address that `X-Forwarded-For`, then `X-Real-IP`, then the peer tell.
    fn chain(by: &ClientIp, peer: &str, forwarded: Option<&str>, real: &[&str]) -> String {
        let mut request = http::Request::new(());
        if let Some(forwarded) = forwarded {
            request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        }
        for real in real {
            request.headers_mut().append("x-real-ip", real.parse().unwrap());
        }
        request.extensions_mut().insert(Peer(peer.parse().unwrap()));
        by.address(&RequestView::from(&request)).unwrap().to_string()
    }

    #[test]
    fn the_chain_from_forwarded_to_real_to_peer() {
        let by = ClientIp::trusting(["10.0.0.0/8".parse().unwrap()]);
        let of = |peer, forwarded, real: &[&str]| chain(&by, peer, forwarded, real);
        assert_eq!(of("10.0.0.1", Some("6.6.6.6, 203.0.113.7"), &["198.51.100.1"]), "203.0.113.7");
        assert_eq!(of("10.0.0.1", None, &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", None, &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(of("10.0.0.1", None, &["whoever"]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", None, &[]), "10.0.0.1");
        // A second line was appended by nobody that we know of: who added which cannot be told.
        assert_eq!(of("10.0.0.1", None, &["6.6.6.6", "198.51.100.1"]), "10.0.0.1");
        // What is there but cannot be read is no reason to believe another header.
        assert_eq!(of("10.0.0.1", Some("junk"), &["6.6.6.6"]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", Some(""), &["6.6.6.6"]), "10.0.0.1");
        // From a stranger nothing is believed.
        assert_eq!(of("192.0.2.1", Some("6.6.6.6"), &["6.6.6.6"]), "192.0.2.1");
        assert_eq!(chain(&ClientIp::default(), "10.0.0.1", Some("6.6.6.6"), &["6.6.6.6"]), "10.0.0.1");
    }

    #[test]
    fn private_networks() {
        let by = ClientIp::trusting_private_networks();
        for ours in
            ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.1.1", "::1", "fd00::1", "fe80::1"]
        {
            assert_eq!(chain(&by, ours, Some("203.0.113.7"), &[]), "203.0.113.7", "{ours}");
        }
        for stranger in ["172.32.0.1", "11.0.0.1", "2001:db8::1", "8.8.8.8"] {
            assert_eq!(chain(&by, stranger, Some("203.0.113.7"), &["6.6.6.6"]), stranger);
        }
    }

    #[test]
    fn what_is_spoofable_says_so() {
        assert_eq!(of(&ClientIp::spoofable_first_forwarded(), &["6.6.6.6, 203.0.113.7"]), "6.6.6.6");
        assert_eq!(of(&ClientIp::spoofable_real_ip(), &["6.6.6.6"]), "10.0.0.1");
    }

    #[test]
    fn ipv6_is_masked() {
        let by = ClientIp::default();
        let of = |by: &ClientIp, peer| key(by, Some(peer), &[]).unwrap();
        assert_eq!(of(&by, "2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(of(&by.clone().ipv6_prefix(48), "2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
        assert_eq!(of(&by.clone().ipv6_prefix(128), "2001:db8::6"), "2001:db8::6");
        assert_eq!(of(&by.clone().ipv6_prefix(0), "2001:db8::6"), "::/0");
        assert_eq!(of(&by, "::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(of(&by, "255.255.255.255"), "255.255.255.255");
    }
}
