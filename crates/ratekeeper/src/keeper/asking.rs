//! A question that is asked when somebody waits for it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::error::KeeperError;
use super::ruling::Ruling;
use crate::port::Answer;

/// A request that can be put to a keeper. Sealed: only attempts, with time to wait or without, are.
pub trait Ask<'a> {
    /// What it is answered with.
    type Answer;

    /// Asks. A store in memory has decided when this returns.
    fn ask(self) -> Answer<'a, Self::Answer, KeeperError>;
}

/// The future of an [`Attempt`](super::Attempt), of a [`HoldAttempt`](super::HoldAttempt), or of either that waits. Nothing is asked before it is first polled: a
/// `select!` makes futures of all its branches, and may never come to this one.
///
/// # Panics
///
/// Polling it again after it has completed panics.
#[must_use = "a future asks nobody unless it is awaited"]
pub struct Asking<'a, Q, R = Ruling>(AskingStage<'a, Q, R>);

enum AskingStage<'a, Q, R> {
    /// `None` once it was asked.
    Start(Option<Q>),
    /// The store has to be awaited.
    Asked(Answer<'a, R, KeeperError>),
}

impl<Q, R> Asking<'_, Q, R> {
    #[inline]
    pub(super) fn new(request: Q) -> Self {
        Asking(AskingStage::Start(Some(request)))
    }
}

impl<'a, R, Q: Ask<'a, Answer = R> + Unpin> Future for Asking<'a, Q, R> {
    type Output = Result<R, KeeperError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut pending = match &mut self.0 {
            AskingStage::Asked(answer) => return Pin::new(answer).poll(context),
            AskingStage::Start(request) => {
                #[expect(clippy::expect_used, reason = "a caller's bug, documented")]
                let request = request.take().expect("`Asking` polled after completion");
                match request.ask().now() {
                    Ok(ruling) => return Poll::Ready(ruling),
                    Err(pending) => pending,
                }
            }
        };
        let answer = Pin::new(&mut pending).poll(context);
        if answer.is_pending() {
            self.0 = AskingStage::Asked(pending);
        }
        answer
    }
}

impl<Q, R> fmt::Debug for Asking<'_, Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            AskingStage::Start(_) => "Asking(not asked)",
            AskingStage::Asked(_) => "Asking(pending)",
        })
    }
}
