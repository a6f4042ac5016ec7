//! Networks, to say which proxies are trusted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: u128,
    mask: u128,
}

/// A text that is not a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CidrError(String);

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "network: `{}`; write it as `10.0.0.0/8` or `2001:db8::/32`", self.0.escape_debug())
    }
}

impl std::error::Error for CidrError {}

impl Cidr {
    /// The networks that are not reached from the internet: private, loopback and link-local ones.
    pub(super) const PRIVATE: [Cidr; 8] = [
        Cidr::v4([10, 0, 0, 0], 8),
        Cidr::v4([172, 16, 0, 0], 12),
        Cidr::v4([192, 168, 0, 0], 16),
        Cidr::v4([127, 0, 0, 0], 8),
        Cidr::v4([169, 254, 0, 0], 16),
        Cidr { network: 1, mask: u128::MAX },
        Cidr { network: 0xfc << 120, mask: 0xfe << 120 },
        Cidr { network: 0xfe80 << 112, mask: 0xffc0 << 112 },
    ];

    const fn v4([a, b, c, d]: [u8; 4], length: u32) -> Self {
        let network = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().to_bits();
        Cidr { network, mask: u128::MAX << (32 - length) }
    }

    /// Returns true if the address is in the network. An IPv4 address that is written as an IPv6 one is an IPv4
    /// address.
    pub fn contains(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.network
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = || CidrError(text.chars().take(64).collect());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length: u32 = match length {
            Some(length) => length.parse().ok().filter(|length| *length <= width).ok_or_else(error)?,
            None => width,
        };
        let mask = mask(128 - width + length);
        Ok(Cidr { network: bits(address) & mask, mask })
    }
}

/// Returns a mask of the first `length` of 128 bits.
pub(super) fn mask(length: u32) -> u128 {
    u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0)
}

/// Returns IPv4 addresses as IPv6 ones, so that there is one comparison.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let within = |network: &str, address: &str| {
            network.parse::<Cidr>().unwrap().contains(address.parse().unwrap())
        };
        assert!(within("10.0.0.0/8", "10.255.0.1") && !within("10.0.0.0/8", "11.0.0.1"));
        assert!(within("10.1.2.3", "10.1.2.3") && !within("10.1.2.3", "10.1.2.4"));
        assert!(within("10.0.0.0/8", "::ffff:10.0.0.1"), "the same address, written otherwise");
        assert!(within("2001:db8::/32", "2001:db8:1::1") && !within("2001:db8::/32", "2001:db9::1"));
        assert!(within("0.0.0.0/0", "1.2.3.4") && !within("0.0.0.0/0", "2001:db8::1"));
        assert!(within("::/0", "2001:db8::1"));
        for bad in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "x/8", "::/129"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }
}
