//! What every extractor does: a request goes in, a key comes out.

use std::fmt::Debug;
use std::sync::Arc;

use super::buffer::KeyBuf;
use super::error::ExtractError;

/// The key of requests that do not say whose they are: they share one limit.
pub const ANONYMOUS: &str = "anonymous";

/// Tells whose request it is, for requests of type `R`.
///
/// The extractors of [this module](super) work on every `R` that has [attributes](super::RequestAttributes). A limit
/// takes those for [`RequestView`](super::RequestView)s.
pub trait KeyExtractor<R: ?Sized>: Send + Sync + Debug {
    /// Appends the key of `request` to `key`.
    ///
    /// # Errors
    ///
    /// If the request does not tell, and no fallback would be true.
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError>;

    /// Returns the key of `request`, which has at least one byte. Allocates nothing for keys up to 64 bytes.
    ///
    /// # Errors
    ///
    /// As [`extract`](KeyExtractor::extract), and [`ExtractError::Empty`] if it has appended nothing.
    fn key(&self, request: &R) -> Result<KeyBuf, ExtractError> {
        let mut key = KeyBuf::new();
        self.extract(request, &mut key)?;
        if key.as_bytes().is_empty() { Err(ExtractError::Empty) } else { Ok(key) }
    }
}

impl<R: ?Sized, E: KeyExtractor<R> + ?Sized> KeyExtractor<R> for Arc<E> {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        (**self).extract(request, key)
    }
}

impl<R: ?Sized, E: KeyExtractor<R> + ?Sized> KeyExtractor<R> for Box<E> {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        (**self).extract(request, key)
    }
}
