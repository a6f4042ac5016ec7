//! A request as extractors see it, whatever carries it.

use std::net::IpAddr;

/// What a key can be made of. Implement it for your own request, and every extractor of [this module](super) works on
/// it: a message of a queue, a call of an RPC, a line of a log.
///
/// A [`RequestView`](super::RequestView) implements it for HTTP.
///
/// Every method has a default that knows nothing; write those that your request can answer.
///
/// # Examples
///
/// ```
/// use ratekeeper_http::key::{Composite, Header, KeyExtractor, Principal, RequestAttributes};
///
/// /// A message of a queue.
/// struct Message {
///     sender: String,
///     properties: Vec<(String, String)>,
/// }
///
/// impl RequestAttributes for Message {
///     fn header(&self, name: &str) -> impl DoubleEndedIterator<Item = &[u8]> {
///         let named = self.properties.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
///         named.map(|(_, value)| value.as_bytes())
///     }
///
///     fn principal(&self) -> Option<&str> {
///         Some(&self.sender)
///     }
/// }
///
/// let message = Message { sender: "ann".into(), properties: vec![("Tenant".into(), "acme".into())] };
/// let by = Composite::new(Header::new("tenant")).and(Principal);
/// assert_eq!(by.key(&message)?.as_bytes(), b"4:acme|3:ann");
/// # Ok::<(), ratekeeper_http::key::ExtractError>(())
/// ```
pub trait RequestAttributes {
    /// Returns the values of every header (or property, or metadata entry) of this name, in the order of arrival.
    ///
    /// `name` is lower case. Compare it without regard to case.
    fn header(&self, name: &str) -> impl DoubleEndedIterator<Item = &[u8]> {
        let _ = name;
        std::iter::empty()
    }

    /// Returns the address at the other end of the connection.
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    /// Returns where the request goes: a route, a path, a topic, a method.
    fn route(&self) -> Option<&str> {
        None
    }

    /// Returns the name of whoever was authenticated.
    fn principal(&self) -> Option<&str> {
        None
    }
}
