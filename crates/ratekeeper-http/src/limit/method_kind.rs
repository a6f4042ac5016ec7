//! What a method says of the response.

use http::Method;

/// What a request's method says of the body of its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MethodKind {
    /// There is a body, unless the status says otherwise.
    #[default]
    Ordinary,
    /// `HEAD`: there is no body, whatever the headers say.
    Head,
    /// `CONNECT`: a success opens a tunnel instead.
    Connect,
}

impl From<&Method> for MethodKind {
    fn from(method: &Method) -> Self {
        match *method {
            Method::HEAD => MethodKind::Head,
            Method::CONNECT => MethodKind::Connect,
            _ => MethodKind::Ordinary,
        }
    }
}
