//! Keys by a header: an API key, a tenant.

use http::HeaderName;

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::{ANONYMOUS, KeyExtractor};
use super::request::RequestAttributes;

/// The value of a header. A client can send any value: limit by a header only where something else checks it, or bound
/// the number of keys.
///
/// A header that is missing, empty, or longer than [`MAX_LEN`](Header::MAX_LEN) counts as `anonymous`.
///
/// A request with several such headers, with different values, is refused with 400: what is behind the limit may take
/// another one than the limit does, and then its sender chooses whose limit counts. If you know which one is true, say
/// so: [`first`](Header::first) or [`last`](Header::last).
///
/// # Examples
///
/// ```
/// use ratekeeper_http::key::Header;
/// let by_api_key = Header::new("x-api-key");
/// // A proxy appends a line of its own.
/// let by_tenant = Header::new("x-tenant").last();
/// # let _ = (by_api_key, by_tenant);
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    of_several: OfSeveral,
}

/// Which value counts if there are several different ones.
#[derive(Clone, Copy, Debug)]
enum OfSeveral {
    /// None of them: the request is refused.
    None,
    First,
    Last,
}

impl Header {
    /// The longest value that becomes a key, in bytes.
    pub const MAX_LEN: usize = 256;

    /// Creates an extractor of the header of this name, which is written in the program. For a name that comes from
    /// elsewhere parse a [`HeaderName`] and take `Header::from`.
    ///
    /// # Panics
    ///
    /// If no header can have this name, as [`HeaderName::from_static`] does.
    pub fn new(name: &'static str) -> Self {
        match HeaderName::try_from(name) {
            Ok(name) => Header::from(name),
            Err(_) => panic!("header: `{}`; write a name such as `x-api-key`", name.escape_debug()),
        }
    }

    /// Takes the first of several values, instead of refusing the request: for servers that take the first themselves.
    #[must_use]
    pub fn first(mut self) -> Self {
        self.of_several = OfSeveral::First;
        self
    }

    /// Takes the last of several values, instead of refusing the request: for proxies that append a line of their own,
    /// and pass on what the client wrote.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.of_several = OfSeveral::Last;
        self
    }
}

impl From<HeaderName> for Header {
    fn from(name: HeaderName) -> Self {
        Header { name, of_several: OfSeveral::None }
    }
}

impl<R: RequestAttributes + ?Sized> KeyExtractor<R> for Header {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let mut lines = request.header(self.name.as_str()).map(<[u8]>::trim_ascii);
        let value = match self.of_several {
            OfSeveral::First => lines.next(),
            OfSeveral::Last => lines.next_back(),
            OfSeveral::None => sole(lines).map_err(|Ambiguous| ExtractError::Ambiguous(self.name.clone()))?,
        };
        let value = value.filter(|value| (1..=Self::MAX_LEN).contains(&value.len()));
        key.push(value.unwrap_or(ANONYMOUS.as_bytes()));
        Ok(())
    }
}

/// Several headers of one name, with different values.
struct Ambiguous;

/// Returns the only value that there is. A line that repeats it is no other value.
fn sole<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Result<Option<&'a [u8]>, Ambiguous> {
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.all(|other| other == first) { Ok(Some(first)) } else { Err(Ambiguous) }
}

#[cfg(test)]
mod tests {
    use super::super::view::RequestView;
    use super::*;

    /// The first of several was taken, whatever the others said.
    #[test]
    fn of_several_lines_none_is_taken_unless_it_is_said_which() {
        let key = |by: &Header, lines: &[&str]| {
            let mut request = http::Request::new(());
            for line in lines {
                request.headers_mut().append("x-api-key", line.parse().unwrap());
            }
            let key = by.key(&RequestView::from(&request))?;
            Ok(String::from_utf8(key.as_bytes().to_vec()).unwrap())
        };
        let header = Header::new("X-Api-Key");
        let ambiguous = Err(ExtractError::Ambiguous(HeaderName::from_static("x-api-key")));
        assert_eq!(key(&header, &[]).as_deref(), Ok("anonymous"));
        assert_eq!(key(&header, &["a"]).as_deref(), Ok("a"));
        assert_eq!(key(&header, &["a", " a "]).as_deref(), Ok("a"), "they say the same");
        assert_eq!(key(&header, &["a", "b"]), ambiguous);
        assert_eq!(key(&header, &["", "b"]), ambiguous);
        assert_eq!(key(&header, &["a", "a", "b"]), ambiguous);
        assert_eq!(key(&header.clone().first(), &["a", "b"]).as_deref(), Ok("a"));
        assert_eq!(key(&header.clone().last(), &["a", "b", "c"]).as_deref(), Ok("c"));
        assert_eq!(key(&header.last(), &[]).as_deref(), Ok("anonymous"));
    }
}
