//! By whatever the program knows.

use std::borrow::Cow;
use std::fmt;

use super::{ANONYMOUS, ExtractError, KeyBuf, KeyExtractor, RequestView};

/// A function that tells the key; where it tells none, `anonymous`.
///
/// ```
/// use ratekeeper_http::key::Custom;
/// let by_tenant = Custom::new(|request| {
///     let host = request.headers().get("host")?.to_str().ok()?;
///     host.split('.').next().map(Into::into)
/// });
/// # let _ = by_tenant;
/// ```
pub struct Custom<F>(F);

impl<F> Custom<F>
where
    F: for<'a> Fn(&RequestView<'a>) -> Option<Cow<'a, str>> + Send + Sync,
{
    /// By this function.
    pub fn new(function: F) -> Self {
        Custom(function)
    }
}

impl<F> fmt::Debug for Custom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl<F> KeyExtractor for Custom<F>
where
    F: for<'a> Fn(&RequestView<'a>) -> Option<Cow<'a, str>> + Send + Sync,
{
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let told = (self.0)(request).filter(|told| !told.is_empty());
        key.push(told.as_deref().unwrap_or(ANONYMOUS).as_bytes());
        Ok(())
    }
}
