//! Which server is asked.

use std::str::FromStr;

use ratekeeper_server::{Bind, BindError};

/// Where to ask, and by which name the server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ServerTarget {
    pub(in crate::cli) address: Bind,
    /// The host as it was written, for the certificate.
    pub(in crate::cli) host: String,
    pub(in crate::cli) is_https: bool,
}

impl FromStr for ServerTarget {
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
        Ok(ServerTarget { address, host: host.trim_matches(['[', ']']).to_owned(), is_https })
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
            let place: ServerTarget = text.parse().unwrap();
            assert_eq!(place.address, Bind::At(address.parse().unwrap()), "{text}");
            assert_eq!((place.host.as_str(), place.is_https), (host, is_https), "{text}");
        }
        assert_eq!("ftp://127.0.0.1:1".parse::<ServerTarget>(), Err(BindError));
        assert_eq!("off".parse::<ServerTarget>().unwrap().address, Bind::Off);
    }
}
