//! Which server is asked.

use std::str::FromStr;

use ratekeeper_server::{Bind, BindError};

/// Where to ask, and by which name the server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ServerTarget {
    pub(in crate::cli) address: Bind,
    /// The host as it was written, for the certificate.
    pub(in crate::cli) host: String,
    /// Host and port as they were written: a proxy finds out by them who is meant.
    pub(in crate::cli) authority: String,
    pub(in crate::cli) is_https: bool,
}

impl FromStr for ServerTarget {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        let (is_https, default_port, authority) = match text.split_once("://") {
            None => (false, None, text),
            Some(("http", rest)) => (false, Some(80), rest),
            Some(("https", rest)) => (true, Some(443), rest),
            Some(_) => return Err(BindError),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let split = authority.rsplit_once(':').filter(|(_, port)| is_port(port));
        let address = match (split, default_port) {
            (None, Some(port)) => format!("{authority}:{port}").parse()?,
            _ => authority.parse()?,
        };
        let host = split.map_or(authority, |(host, _)| host).trim_matches(['[', ']']).to_owned();
        Ok(ServerTarget { address, host, authority: authority.to_owned(), is_https })
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
            ("http://127.0.0.1", "127.0.0.1:80", "127.0.0.1", false),
            ("https://[::1]/", "[::1]:443", "::1", true),
        ] {
            let place: ServerTarget = text.parse().unwrap();
            assert_eq!(place.address, Bind::At(address.parse().unwrap()), "{text}");
            assert_eq!((place.host.as_str(), place.is_https), (host, is_https), "{text}");
            assert!(text.contains(&place.authority) && !place.authority.contains('/'), "{text}");
        }
        assert_eq!("ftp://127.0.0.1:1".parse::<ServerTarget>(), Err(BindError));
        assert_eq!("127.0.0.1".parse::<ServerTarget>(), Err(BindError), "an address has a port");
        assert_eq!("off".parse::<ServerTarget>().unwrap().address, Bind::Off);
    }
}
