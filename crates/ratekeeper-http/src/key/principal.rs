//! By who was authenticated.

use std::sync::Arc;

use super::{ANONYMOUS, ExtractError, KeyBuf, KeyExtractor, RequestView};

/// Who was authenticated, as an authentication layer that runs before the limit says; `anonymous` for everybody of
/// whom it says nothing.
///
/// ```
/// use ratekeeper_http::key::Authenticated;
/// // In the authentication layer:
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Authenticated::new("user:42"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Principal;

/// The extension in which an authentication layer tells [`Principal`] who it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authenticated(Arc<str>);

impl Authenticated {
    /// Somebody of this name.
    pub fn new(name: &str) -> Self {
        Authenticated(name.into())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl KeyExtractor for Principal {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let name =
            request.extension::<Authenticated>().map(Authenticated::name).filter(|name| !name.is_empty());
        key.push(name.unwrap_or(ANONYMOUS).as_bytes());
        Ok(())
    }
}
