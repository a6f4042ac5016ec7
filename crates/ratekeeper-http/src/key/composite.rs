//! Several keys as one.

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::KeyExtractor;

/// The keys of two or more extractors as one: per user and route, per tenant and address.
///
/// Parts are joined by `|`, and each is preceded by its length. So two different lists of parts are never the same key,
/// whatever bytes the parts consist of.
///
/// # Examples
///
/// ```
/// use ratekeeper_http::key::{Composite, Header, KeyExtractor, RequestView, Route};
/// let per_user_and_route = Composite::new(Header::new("x-user")).and(Route);
/// let request = http::Request::builder().uri("/search").header("x-user", "ann").body(())?;
/// let key = per_user_and_route.key(&RequestView::from(&request))?;
/// assert_eq!(key.as_bytes(), b"3:ann|7:/search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Composite<Parts>(Parts);

impl<First> Composite<(First,)> {
    /// Creates a composite of one part.
    pub fn new(first: First) -> Self {
        Composite((first,))
    }
}

impl<Part> Composite<Vec<Part>> {
    /// Creates a composite of a list that is known only at run time, from a configuration file for example. Parts of
    /// different types are boxed.
    ///
    /// # Examples
    ///
    /// ```
    /// use ratekeeper_http::key::{Composite, Header, KeyExtractor, RequestView, Route};
    /// type Part = Box<dyn for<'a> KeyExtractor<RequestView<'a>>>;
    /// let parts: Vec<Part> = vec![Box::new(Route)];
    /// let configured = Composite::listed(Box::new(Header::new("x-user")) as Part, parts);
    /// let request = http::Request::builder().uri("/search").header("x-user", "ann").body(())?;
    /// assert_eq!(configured.key(&RequestView::from(&request))?.as_bytes(), b"3:ann|7:/search");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listed(first: Part, more: impl IntoIterator<Item = Part>) -> Self {
        Composite([first].into_iter().chain(more).collect())
    }
}

impl<Parts> Composite<Parts> {
    /// Adds a part to the end of the key.
    #[must_use]
    pub fn and<Next>(self, next: Next) -> Composite<(Self, Next)> {
        Composite((self, next))
    }
}

impl<R: ?Sized, First: KeyExtractor<R>> KeyExtractor<R> for Composite<(First,)> {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        push_part(&self.0.0, request, key)
    }
}

/// The first of the two is a composite too: only [`Composite::and`] makes this type.
impl<R: ?Sized, Head: KeyExtractor<R>, Last: KeyExtractor<R>> KeyExtractor<R> for Composite<(Head, Last)> {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        self.0.0.extract(request, key)?;
        key.push(b"|");
        push_part(&self.0.1, request, key)
    }
}

impl<R: ?Sized, Part: KeyExtractor<R>> KeyExtractor<R> for Composite<Vec<Part>> {
    fn extract(&self, request: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                key.push(b"|");
            }
            push_part(part, request, key)?;
        }
        Ok(())
    }
}

fn push_part<R: ?Sized>(
    part: &impl KeyExtractor<R>,
    request: &R,
    key: &mut KeyBuf,
) -> Result<(), ExtractError> {
    let mut bytes = KeyBuf::new();
    part.extract(request, &mut bytes)?;
    key.push(itoa::Buffer::new().format(bytes.as_bytes().len()).as_bytes());
    key.push(b":");
    key.push(bytes.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The part at this position of a request that is a list of parts.
    #[derive(Clone, Debug)]
    struct Nth(usize);

    impl KeyExtractor<[String]> for Nth {
        fn extract(&self, request: &[String], key: &mut KeyBuf) -> Result<(), ExtractError> {
            key.push(request[self.0].as_bytes());
            Ok(())
        }
    }

    fn key(parts: &[String]) -> Vec<u8> {
        let one = Composite::new(Nth(0));
        let key = match parts.len() {
            1 => one.key(parts),
            2 => one.and(Nth(1)).key(parts),
            _ => one.and(Nth(1)).and(Nth(2)).key(parts),
        };
        let key = key.unwrap().as_bytes().to_vec();
        let listed = Composite::listed(Nth(0), (1..parts.len()).map(Nth));
        assert_eq!(listed.key(parts).unwrap().as_bytes(), key, "however it was put together");
        key
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn different_parts_are_different_keys(
            one in prop::collection::vec("[a|:0-9]{1,4}", 1..4),
            other in prop::collection::vec("[a|:0-9]{1,4}", 1..4),
        ) {
            prop_assert_eq!(one == other, key(&one) == key(&other));
        }
    }
}
