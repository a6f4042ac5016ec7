//! Where a health check asks.

use std::str::FromStr;

use ratekeeper_server::{Bind, BindError};

/// Where to ask, and by which name the server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HealthTarget {
    pub(super) address: Bind,
    /// The host as it was written, for the certificate.
    pub(super) host: String,
    pub(super) is_https: bool,
}

impl FromStr for HealthTarget {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        let (is_https, authority) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(BindError),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let address = authority.parse()?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Ok(HealthTarget { address, host: host.trim_matches(['[', ']']).to_owned(), is_https })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_urls() {
        for (text, address, host, is_https) in [
            ("127.0.0.1:1", "127.0.0.1:1", "127.0.0.1", false),
            ("http://127.0.0.1:1/", "127.0.0.1:1", "127.0.0.1", false),
            ("https://[::1]:1", "[::1]:1", "::1", true),
        ] {
            let place: HealthTarget = text.parse().unwrap();
            assert_eq!(place.address, Bind::At(address.parse().unwrap()), "{text}");
            assert_eq!((place.host.as_str(), place.is_https), (host, is_https), "{text}");
        }
        assert_eq!("ftp://127.0.0.1:1".parse::<HealthTarget>(), Err(BindError));
        assert_eq!("off".parse::<HealthTarget>().unwrap().address, Bind::Off);
    }
}
