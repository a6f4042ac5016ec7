//! A request that was understood once. Clients repeat themselves: most requests differ from the one before in their key
//! alone, and such a one is recognised by comparing bytes, without reading it again.
//!
//! Whose request it was does not matter, because nothing of it is kept but what its bytes say.

use std::ops::Range;

use super::Waiting;

/// Requests with more bytes around their key are read: comparing them would save little.
const MAX: usize = 128;

/// How a framing tells where a key lies, in the bytes that begin with it: its length comes before it, so that it can
/// neither be cut short nor reach into what follows.
pub(crate) type Locate = fn(&[u8]) -> Option<Range<usize>>;

/// The request, without its key.
#[derive(Debug)]
pub(super) struct Template {
    head: Box<[u8]>,
    locate: Locate,
    tail: Box<[u8]>,
    waiting: Waiting,
}

impl Template {
    /// Of the request that is `text`, which lies at `base`, and tells of its key after so many bytes.
    pub(super) fn new(
        text: &[u8],
        base: usize,
        head: usize,
        locate: Locate,
        waiting: &Waiting,
    ) -> Option<Self> {
        let (head, _) = text.split_at_checked(head)?;
        let tail = text.get(waiting.key.end.checked_sub(base)?..)?;
        let fits = head.len() + tail.len() <= MAX;
        fits.then(|| Template { head: head.into(), locate, tail: tail.into(), waiting: waiting.clone() })
    }

    /// The request at the beginning of `bytes`, which lie at `base`, and its length: if it is this one but for the key.
    #[inline]
    pub(super) fn recognise(&self, bytes: &[u8], base: usize) -> Option<(Waiting, usize)> {
        let rest = bytes.strip_prefix(&*self.head)?;
        let key = (self.locate)(rest)?;
        if key.is_empty() || !rest.get(key.end..)?.starts_with(&self.tail) {
            return None;
        }
        let at = base + self.head.len();
        let len = self.head.len() + key.end + self.tail.len();
        Some((Waiting { key: at + key.start..at + key.end, ..self.waiting.clone() }, len))
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{Cost, Quota};

    use super::super::Dialect;
    use super::*;

    /// One digit, and so many bytes.
    fn locate(bytes: &[u8]) -> Option<Range<usize>> {
        let len = usize::from(bytes.first()?.checked_sub(b'0')?);
        (len < 10).then_some(1..1 + len)
    }

    fn waiting(key: Range<usize>) -> Waiting {
        let quota = Quota::throttle(1, 2, 3).unwrap();
        Waiting { key, quota, cost: Cost::ONE, dialect: Dialect::Throttle }
    }

    #[test]
    fn only_the_key_may_differ() {
        let template = Template::new(b"<2ab 1 2 3>", 9, 1, locate, &waiting(11..13)).unwrap();
        let found = |bytes: &str| {
            let (found, len) = template.recognise(bytes.as_bytes(), 100)?;
            assert_eq!(found.quota, waiting(0..0).quota);
            Some((found.key, len))
        };
        assert_eq!(found("<2xy 1 2 3><2"), Some((102..104, 11)));
        assert_eq!(found("<51 2 3 1 2 3>"), Some((102..107, 14)));
        for other in
            ["[2xy 1 2 3>", "<2xy 1 2 4>", "<1xy 1 2 3>", "<9xy 1 2 3>", "<0 1 2 3>", "<2xy 1 2 3", "<", ""]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_long_is_not_remembered() {
        assert!(Template::new(&[b'a'; MAX + 2], 0, 1, locate, &waiting(1..3)).is_some());
        assert!(Template::new(&[b'a'; MAX + 3], 0, 1, locate, &waiting(1..3)).is_none());
    }
}
