//! By a header: an API key, a tenant.

use http::HeaderName;

use super::{ANONYMOUS, ExtractError, KeyBuf, KeyExtractor, RequestView};

/// The value of a header. Anybody can send any value: limit by it only what is checked elsewhere, or bound the
/// number of keys.
///
/// A header that is missing, empty, or longer than [`MAX_LEN`](Header::MAX_LEN) counts as `anonymous`.
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

impl Header {
    /// The longest value that is a key, in bytes.
    pub const MAX_LEN: usize = 256;

    /// By the header of this name.
    ///
    /// # Panics
    ///
    /// If the name is not one that a header can have: it is the program's, not the request's.
    pub fn new(name: &str) -> Self {
        match HeaderName::try_from(name) {
            Ok(name) => Header(name),
            Err(_) => panic!("header: `{}`; not a name that a header can have", name.escape_debug()),
        }
    }
}

impl From<HeaderName> for Header {
    fn from(name: HeaderName) -> Self {
        Header(name)
    }
}

impl KeyExtractor for Header {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let value = request.headers().get(&self.0).map(|value| value.as_bytes().trim_ascii());
        let value = value.filter(|value| (1..=Self::MAX_LEN).contains(&value.len()));
        key.push(value.unwrap_or(ANONYMOUS.as_bytes()));
        Ok(())
    }
}
