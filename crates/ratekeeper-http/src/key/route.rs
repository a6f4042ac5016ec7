//! By where the request goes.

use super::{ExtractError, KeyBuf, KeyExtractor, RequestView};

/// The path as the router knows it (`/users/{id}`), if there is one that tells; otherwise the path itself, which
/// anybody can vary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Route;

impl KeyExtractor for Route {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        match request.route() {
            // A CONNECT request has no path.
            "" => key.push(b"/"),
            route => key.push(route.as_bytes()),
        }
        Ok(())
    }
}
