//! The last throttle that was parsed. Clients repeat themselves: most throttles differ from the one before in their key
//! alone, and are recognised by comparing bytes, without parsing them again.
//!
//! Which client sent it does not matter, because nothing of it is kept but what its bytes say. Which protocol it came
//! over does: see [`ThrottleWire`](super::framing::ThrottleWire).

use super::framing::ThrottleFraming;
use super::pending::PendingThrottle;

/// Throttles with more bytes around their key are parsed: comparing them would save little.
const MAX: usize = 128;

/// A throttle of one protocol without its key. Allocates nothing: a client may send another quota with every request, and
/// each of them is remembered.
#[derive(Debug)]
pub(super) struct ThrottleTemplate {
    /// The bytes between its prefix and the framing of the key, then those after the key.
    around: [u8; MAX],
    /// How many of them are before the key, and how many there are.
    head: usize,
    len: usize,
    throttle: PendingThrottle,
}

impl ThrottleTemplate {
    /// Returns the template of the throttle that is `text`, lies at `base`, and has the framing of its key after `head`
    /// bytes; `None` if it is too long.
    pub(super) fn new<F: ThrottleFraming>(
        text: &[u8],
        base: usize,
        head: usize,
        throttle: &PendingThrottle,
    ) -> Option<Self> {
        let head = text.get(F::PREFIX..head)?;
        let tail = text.get(throttle.key.end.checked_sub(base)?..)?;
        let mut around = [0; MAX];
        let len = head.len() + tail.len();
        around.get_mut(..head.len())?.copy_from_slice(head);
        around.get_mut(head.len()..len)?.copy_from_slice(tail);
        Some(ThrottleTemplate { around, head: head.len(), len, throttle: throttle.clone() })
    }

    /// Returns the throttle at the beginning of `bytes`, which lie at `base`, and its length, if it is this one but for
    /// the key.
    #[inline]
    pub(super) fn recognise<F: ThrottleFraming>(
        &self,
        bytes: &[u8],
        base: usize,
    ) -> Option<(PendingThrottle, usize)> {
        let (head, tail) = self.around[..self.len].split_at(self.head);
        let (prefix, rest) = bytes.split_at_checked(F::PREFIX)?;
        let rest = rest.strip_prefix(head)?;
        let key = F::locate_key(rest)?;
        if key.is_empty() || !rest.get(key.end..)?.starts_with(tail) {
            return None;
        }
        let before = F::PREFIX + head.len();
        let len = before + key.end + tail.len();
        if !F::is_prefix_of(prefix, len) {
            return None;
        }
        let at = base + before;
        Some((PendingThrottle { key: at + key.start..at + key.end, ..self.throttle.clone() }, len))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use ratekeeper::{Cost, Quota};

    use super::super::framing::ThrottleWire;
    use super::*;
    use crate::request::ThrottleDialect;

    /// One digit for the length of the key, and one before everything for that of the whole, in pieces of ten.
    struct Digits;

    impl ThrottleFraming for Digits {
        const WIRE: ThrottleWire = ThrottleWire::Resp;
        const PREFIX: usize = 1;

        fn is_prefix_of(prefix: &[u8], len: usize) -> bool {
            prefix.first().is_some_and(|digit| usize::from(digit - b'0') == len / 10)
        }

        fn locate_key(bytes: &[u8]) -> Option<Range<usize>> {
            let len = usize::from(bytes.first()?.checked_sub(b'0')?);
            (len < 10).then_some(1..1 + len)
        }
    }

    fn throttle(key: Range<usize>) -> PendingThrottle {
        let quota = Quota::throttle(1, 2, 3).unwrap();
        PendingThrottle { key, quota, cost: Cost::ONE, dialect: ThrottleDialect::Throttle }
    }

    #[test]
    fn only_the_key_may_differ() {
        let template = ThrottleTemplate::new::<Digits>(b"1<2ab 1 2 3>", 9, 2, &throttle(12..14)).unwrap();
        let found = |bytes: &str| {
            let (found, len) = template.recognise::<Digits>(bytes.as_bytes(), 100)?;
            assert_eq!(found.quota, throttle(0..0).quota);
            Some((found.key, len))
        };
        assert_eq!(found("1<2xy 1 2 3>1<2"), Some((103..105, 12)));
        assert_eq!(found("1<51 2 3 1 2 3>"), Some((103..108, 15)));
        assert_eq!(found("2<9123456789 1 2 3>"), None, "the prefix of another length");
        assert_eq!(found("1<9123456789 1 2 3>"), Some((103..112, 19)));
        for other in [
            "1[2xy 1 2 3>",
            "1<2xy 1 2 4>",
            "1<1xy 1 2 3>",
            "1<9xy 1 2 3>",
            "1<0 1 2 3>",
            "1<2xy 1 2 3",
            "1<",
            "1",
            "",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_long_is_not_remembered() {
        let template = |len| ThrottleTemplate::new::<Digits>(&vec![b'a'; len], 0, 2, &throttle(2..4));
        assert!(template(1 + MAX + 2).is_some());
        assert!(template(1 + MAX + 3).is_none());
    }
}
