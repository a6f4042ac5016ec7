//! Several extractors as one.

use super::{ExtractError, KeyBuf, KeyExtractor, RequestView};

/// Several keys as one: per user and route, per tenant and address.
///
/// Parts are joined by `|`, and each is preceded by its length: whatever bytes a part consists of, two different
/// lists of parts are never the same key.
///
/// ```
/// use ratekeeper_http::key::{Composite, Header, KeyBuf, KeyExtractor, RequestView, Route};
/// let per_user_and_route = Composite::new(Header::new("x-user")).and(Route);
/// let request = http::Request::builder().uri("/search").header("x-user", "ann").body(())?;
/// let mut key = KeyBuf::new();
/// per_user_and_route.extract(&RequestView::from(&request), &mut key)?;
/// assert_eq!(key.as_bytes(), b"3:ann|7:/search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Composite(Vec<Box<dyn KeyExtractor>>);

impl Composite {
    /// The first part.
    pub fn new(first: impl KeyExtractor + 'static) -> Self {
        Composite(vec![Box::new(first)])
    }

    /// And another one.
    #[must_use]
    pub fn and(mut self, next: impl KeyExtractor + 'static) -> Self {
        self.0.push(Box::new(next));
        self
    }
}

impl KeyExtractor for Composite {
    fn extract(&self, request: &RequestView<'_>, key: &mut KeyBuf) -> Result<(), ExtractError> {
        for (index, extractor) in self.0.iter().enumerate() {
            let mut part = KeyBuf::new();
            extractor.extract(request, &mut part)?;
            if index > 0 {
                key.push(b"|");
            }
            key.push(itoa::Buffer::new().format(part.as_bytes().len()).as_bytes());
            key.push(b":");
            key.push(part.as_bytes());
        }
        if self.0.is_empty() { Err(ExtractError::Empty) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Header;
    use proptest::prelude::*;

    fn key(values: &[String]) -> Vec<u8> {
        let mut request = http::Request::new(());
        let mut composite = Composite::default();
        for (index, value) in values.iter().enumerate() {
            let name: http::HeaderName = format!("x-{index}").parse().unwrap();
            request.headers_mut().insert(name.clone(), value.parse().unwrap());
            composite = composite.and(Header::from(name));
        }
        let mut key = KeyBuf::new();
        composite.extract(&RequestView::from(&request), &mut key).unwrap();
        key.as_bytes().to_vec()
    }

    proptest! {
        #[test]
        fn different_parts_are_different_keys(
            one in prop::collection::vec("[a|:0-9]{1,4}", 1..4),
            other in prop::collection::vec("[a|:0-9]{1,4}", 1..4),
        ) {
            prop_assert_eq!(one == other, key(&one) == key(&other));
        }
    }

    #[test]
    fn nothing_is_no_key() {
        let request = http::Request::new(());
        let result = Composite::default().extract(&RequestView::from(&request), &mut KeyBuf::new());
        assert_eq!(result, Err(ExtractError::Empty));
    }
}
