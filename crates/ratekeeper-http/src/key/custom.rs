//! Keys by a function.

use std::borrow::Cow;
use std::fmt;

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::{ANONYMOUS, KeyExtractor};
use super::view::RequestView;

/// The key that a function returns; `anonymous` where it returns `None` or an empty text.
///
/// # Examples
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

impl<F> Custom<F> {
    /// Creates an extractor of HTTP requests from a function.
    pub fn new(function: F) -> Self
    where
        F: for<'r, 'a> Fn(&'r RequestView<'a>) -> Option<Cow<'r, str>> + Send + Sync,
    {
        Custom(function)
    }

    /// Creates an extractor of requests of your own type from a function. Write the type at the closure's parameter:
    /// `Custom::of(|job: &Job| …)`.
    pub fn of<R: ?Sized>(function: F) -> Self
    where
        F: for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync,
    {
        Custom(function)
    }
}

impl<F> fmt::Debug for Custom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl<R: ?Sized, F> KeyExtractor<R> for Custom<F>
where
    F: for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync,
{
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let returned = (self.0)(request).filter(|returned| !returned.is_empty());
        key.push(returned.as_deref().unwrap_or(ANONYMOUS).as_bytes());
        Ok(())
    }
}
