//! Keys by where the request goes.

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::KeyExtractor;
use super::request::RequestAttributes;

/// The route as the router knows it (`/users/{id}`), if it tells; otherwise the path itself, of which a client can make
/// up any number. A request without a path, such as a `CONNECT`, counts as `/`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Route;

impl<R: RequestAttributes + ?Sized> KeyExtractor<R> for Route {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        let route = request.route().filter(|route| !route.is_empty());
        key.push(route.unwrap_or("/").as_bytes());
        Ok(())
    }
}
