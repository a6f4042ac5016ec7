//! An answer that is there already, or on its way.

use std::fmt::{self, Debug};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::StoreError;

/// An answer that is there already, or a future of one.
///
/// A store in memory answers at once, without a boxed future; a remote one hands over its future. Both are awaited
/// alike, and a caller without a runtime asks [`now`](Answer::now).
///
/// An answer that is not ready has not begun: whoever makes one does nothing before it is polled, and one that is
/// dropped before that has asked nobody and taken nothing.
///
/// # Panics
///
/// Polling it again after it has completed panics, as [`std::future::Ready`] does.
///
/// # Examples
///
/// ```
/// use ratekeeper::StoreError;
/// use ratekeeper::port::Answer;
///
/// let ready: Answer<'_, u64> = Answer::ready(Ok(20));
/// let doubled = ready.map(|answer| answer.map(|units| 2 * units));
/// assert!(matches!(doubled.now(), Ok(Ok(40))), "still ready");
///
/// let later: Answer<'_, u64> = Answer::later(async { Ok(20) });
/// assert!(later.now().is_err(), "to be awaited");
/// ```
#[must_use = "an answer must be awaited, or asked for `now`"]
pub struct Answer<'a, T, E = StoreError>(Inner<'a, T, E>);

enum Inner<'a, T, E> {
    /// `None` once it was handed over.
    Ready(Option<Result<T, E>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>),
}

impl<'a, T, E> Answer<'a, T, E> {
    /// Returns an answer that is there. Allocates nothing.
    #[inline]
    pub fn ready(value: Result<T, E>) -> Self {
        Answer(Inner::Ready(Some(value)))
    }

    /// Returns an answer that has yet to come. Allocates one box; the future is first polled with the answer.
    pub fn later(answer: impl Future<Output = Result<T, E>> + Send + 'a) -> Self {
        Answer(Inner::Pending(Box::pin(answer)))
    }

    /// Returns the answer of a future that is begun at once: ready if it does not have to wait. Allocates one box.
    pub(crate) fn begun(answer: impl Future<Output = Result<T, E>> + Send + 'a) -> Self {
        let mut answer = Box::pin(answer);
        // Nobody has to be woken: whoever awaits the answer polls it again.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Answer::ready(value),
            Poll::Pending => Answer(Inner::Pending(answer)),
        }
    }

    /// Returns the answer if it is there.
    ///
    /// # Errors
    ///
    /// One that has yet to come is given back, to be awaited.
    ///
    /// # Panics
    ///
    /// If it was polled to completion before.
    #[inline]
    pub fn now(self) -> Result<Result<T, E>, Self> {
        match self.0 {
            Inner::Ready(value) => Ok(unspent(value)),
            pending => Err(Answer(pending)),
        }
    }

    /// Changes the answer. One that is ready stays ready, and `change` is called at once; for one that has yet to come it
    /// is called when it comes, and costs a box.
    #[inline]
    pub fn map<U, F>(self, change: impl FnOnce(Result<T, E>) -> Result<U, F> + Send + 'a) -> Answer<'a, U, F>
    where
        T: Send + 'a,
        E: Send + 'a,
    {
        match self.now() {
            Ok(value) => Answer::ready(change(value)),
            Err(pending) => Answer::later(async move { change(pending.await) }),
        }
    }
}

/// The value of an answer that was not handed over yet.
#[inline]
fn unspent<V>(value: Option<V>) -> V {
    #[expect(clippy::expect_used, reason = "a caller's bug, documented: it would hang for ever otherwise")]
    value.expect("`Answer` polled after completion")
}

// A value that is waited for is never pinned: only the future in its box is.
impl<T, E> Unpin for Answer<'_, T, E> {}

impl<T, E> Future for Answer<'_, T, E> {
    type Output = Result<T, E>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Ready(value) => Poll::Ready(unspent(value.take())),
            Inner::Pending(future) => {
                let answer = future.as_mut().poll(context);
                if answer.is_ready() {
                    // A second poll panics whatever the future itself would do.
                    self.0 = Inner::Ready(None);
                }
                answer
            }
        }
    }
}

impl<T: Debug, E: Debug> Debug for Answer<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Ready(value) => f.debug_tuple("Answer").field(value).finish(),
            Inner::Pending(_) => f.write_str("Answer(pending)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was pending for ever, and whoever waited for it hung.
    #[test]
    fn a_second_poll_panics() {
        let answers: [fn() -> Answer<'static, u8>; 2] =
            [|| Answer::ready(Ok(7)), || Answer::later(std::future::ready(Ok(7)))];
        for answer in answers {
            let mut answer = answer();
            let mut poll = || Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll(), Poll::Ready(Ok(7))));
            let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll().is_ready()));
            let message = *second.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(message, "`Answer` polled after completion");
        }
    }
}
