//! Keys by who was authenticated.

use std::sync::Arc;

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::{ANONYMOUS, KeyExtractor};
use super::request::RequestAttributes;

/// The name of whoever was authenticated by a layer that runs before the limit; `anonymous` if there is none.
///
/// # Examples
///
/// ```
/// use ratekeeper_http::key::Authenticated;
/// // In the authentication layer:
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Authenticated::new("user:42"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Principal;

/// The extension in which an authentication layer tells [`Principal`] who sent the request. A clone shares the name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authenticated(Arc<str>);

impl Authenticated {
    /// Creates the extension for a principal of this name.
    pub fn new(name: &str) -> Self {
        Authenticated(name.into())
    }

    /// Returns the name of the principal.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl<R: RequestAttributes + ?Sized> KeyExtractor<R> for Principal {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let name = request.principal().filter(|name| !name.is_empty());
        key.push(name.unwrap_or(ANONYMOUS).as_bytes());
        Ok(())
    }
}
