//! The last throttle that was parsed. Clients repeat themselves: most throttles differ from the one before in their key
//! alone, and are recognised by comparing bytes, without parsing them again.
//!
//! Which client sent it does not matter, because nothing of it is kept but what its bytes say.

use std::ops::Range;

use super::pending::PendingThrottle;

/// Throttles with more bytes around their key are parsed: comparing them would save little.
const MAX: usize = 128;

/// Returns where the key lies in bytes that begin with its framing. The length comes before the key, so that the key can
/// neither be cut short nor reach into what follows.
pub(super) type LocateKey = fn(&[u8]) -> Option<Range<usize>>;

/// A throttle without its key.
#[derive(Debug)]
pub(super) struct ThrottleTemplate {
    head: Box<[u8]>,
    locate: LocateKey,
    tail: Box<[u8]>,
    throttle: PendingThrottle,
}

impl ThrottleTemplate {
    /// Returns the template of the throttle that is `text`, lies at `base`, and has its key after `head` bytes; `None` if
    /// it is too long.
    pub(super) fn new(
        text: &[u8],
        base: usize,
        head: usize,
        locate: LocateKey,
        throttle: &PendingThrottle,
    ) -> Option<Self> {
        let (head, _) = text.split_at_checked(head)?;
        let tail = text.get(throttle.key.end.checked_sub(base)?..)?;
        let fits = head.len() + tail.len() <= MAX;
        fits.then(|| ThrottleTemplate {
            head: head.into(),
            locate,
            tail: tail.into(),
            throttle: throttle.clone(),
        })
    }

    /// Returns the throttle at the beginning of `bytes`, which lie at `base`, and its length, if it is this one but for
    /// the key.
    #[inline]
    pub(super) fn recognise(&self, bytes: &[u8], base: usize) -> Option<(PendingThrottle, usize)> {
        let rest = bytes.strip_prefix(&*self.head)?;
        let key = (self.locate)(rest)?;
        if key.is_empty() || !rest.get(key.end..)?.starts_with(&self.tail) {
            return None;
        }
        let at = base + self.head.len();
        let len = self.head.len() + key.end + self.tail.len();
        Some((PendingThrottle { key: at + key.start..at + key.end, ..self.throttle.clone() }, len))
    }
}

#[cfg(test)]
mod tests {
    use ratekeeper::{Cost, Quota};

    use super::*;
    use crate::request::ThrottleDialect;

    /// One digit, and so many bytes.
    fn locate(bytes: &[u8]) -> Option<Range<usize>> {
        let len = usize::from(bytes.first()?.checked_sub(b'0')?);
        (len < 10).then_some(1..1 + len)
    }

    fn throttle(key: Range<usize>) -> PendingThrottle {
        let quota = Quota::throttle(1, 2, 3).unwrap();
        PendingThrottle { key, quota, cost: Cost::ONE, dialect: ThrottleDialect::Throttle }
    }

    #[test]
    fn only_the_key_may_differ() {
        let template = ThrottleTemplate::new(b"<2ab 1 2 3>", 9, 1, locate, &throttle(11..13)).unwrap();
        let found = |bytes: &str| {
            let (found, len) = template.recognise(bytes.as_bytes(), 100)?;
            assert_eq!(found.quota, throttle(0..0).quota);
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
        assert!(ThrottleTemplate::new(&[b'a'; MAX + 2], 0, 1, locate, &throttle(1..3)).is_some());
        assert!(ThrottleTemplate::new(&[b'a'; MAX + 3], 0, 1, locate, &throttle(1..3)).is_none());
    }
}
