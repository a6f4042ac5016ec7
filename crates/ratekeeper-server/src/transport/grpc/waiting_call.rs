//! A call that is not answered at once.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::Abortable;

use super::message::RequestMessages;
use super::reply::Reply;

/// So many calls that their clients have given up are asked to their end: enough for whoever asks a store to learn that it
/// does not answer, and few, because they take memory that no stream counts any more.
pub(super) const MOST_GIVEN_UP: usize = 16;

/// What a call leaves: its answer, and the room that its request was in.
pub(super) type Answered = (RequestMessages, Reply);

/// A call that waits for the rest of its request, or for a remote store.
#[derive(Debug)]
pub(super) struct WaitingCall<F> {
    stream: u32,
    call: Abortable<Pin<Box<F>>>,
}

impl<F> WaitingCall<F> {
    pub(super) fn new(stream: u32, call: Abortable<Pin<Box<F>>>) -> Self {
        WaitingCall { stream, call }
    }
}

impl<F: Future<Output = Answered>> Future for WaitingCall<F> {
    type Output = (u32, Option<Answered>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let stream = self.stream;
        Pin::new(&mut self.call).poll(context).map(|answered| (stream, answered.ok()))
    }
}
