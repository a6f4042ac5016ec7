//! The response's body, and what lives until it ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::refusal::GRPC_STATUS;
use crate::limit::{Charge, Seat, Tab};

pin_project! {
    /// The service's body, or a refusal's. What is in flight is in flight until the body has ended, failed, or was
    /// dropped.
    pub struct LimitBody<B> {
        #[pin]
        state: State<B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<B> {
        Served { #[pin] body: B, held: Held },
        Refused { body: Option<Vec<u8>> },
    }
}

/// What a body holds: a seat, which it gives back, and a tab, which it settles. Dropped before its body has ended, the
/// tab is kept or given back as its charge says.
#[derive(Default)]
pub(super) struct Held {
    seat: Option<Box<Seat>>,
    tab: Option<Box<Tab>>,
    /// How many bytes are still to come, if that is known.
    left: Option<u64>,
}

impl Held {
    pub(super) fn new(seat: Option<Box<Seat>>, tab: Option<Box<Tab>>) -> Self {
        Held { seat, tab, left: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seat.is_none() && self.tab.is_none()
    }

    /// So many bytes are to come, and nobody asks for more.
    pub(super) fn expect(&mut self, length: Option<u64>) {
        self.left = length;
        self.end_if_complete();
    }

    /// So many bytes were sent.
    fn sent(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
            self.end_if_complete();
        }
    }

    fn end_if_complete(&mut self) {
        // A gRPC call that is charged on failure says after its body whether it failed.
        if self.left == Some(0) && !self.waits_for_trailers() {
            self.end();
        }
    }

    /// The body has ended. It has been answered to the end; what is charged on failure has not said that it succeeded.
    fn end(&mut self) {
        self.seat = None;
        if let Some(tab) = self.tab.take() {
            tab.keep();
        }
    }

    /// The trailers tell how a gRPC call has ended.
    fn trailers(&mut self, trailers: &HeaderMap) {
        let succeeded = trailers.get(GRPC_STATUS).is_some_and(|status| status == "0");
        if succeeded
            && self.waits_for_trailers()
            && let Some(tab) = self.tab.take()
        {
            tab.give_back();
        }
    }

    /// The connection leaves HTTP: all of the answer is there. The seat is kept until the body is dropped, because
    /// nobody knows for how long the connection lasts, but that it lasts longer than its body.
    pub(super) fn answered(&mut self) {
        if let Some(tab) = self.tab.take() {
            tab.keep();
        }
    }

    /// The body has failed.
    fn fail(&mut self) {
        *self = Held::default();
    }

    fn waits_for_trailers(&self) -> bool {
        self.tab.as_ref().is_some_and(|tab| tab.charge() == Charge::OnFailure)
    }
}

impl<B: Body> LimitBody<B> {
    pub(super) fn new(body: B, held: Held) -> Self {
        LimitBody { state: State::Served { body, held } }
    }

    pub(super) fn refusal(body: Vec<u8>) -> Self {
        LimitBody { state: State::Refused { body: (!body.is_empty()).then_some(body) } }
    }
}

impl<B> Body for LimitBody<B>
where
    B: Body,
    B::Data: From<Vec<u8>>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().state.project() {
            StateProjection::Served { mut body, held } => {
                let frame = ready!(body.as_mut().poll_frame(context));
                match &frame {
                    // Most bodies hold nothing.
                    _ if held.is_empty() => {}
                    None => held.end(),
                    Some(Err(_)) => held.fail(),
                    Some(Ok(frame)) => {
                        if let Some(trailers) = frame.trailers_ref() {
                            held.trailers(trailers);
                        }
                        // A body whose end is known is not polled again.
                        match frame.data_ref() {
                            _ if body.is_end_stream() => held.end(),
                            Some(data) => held.sent(data.remaining()),
                            None => {}
                        }
                    }
                }
                Poll::Ready(frame)
            }
            StateProjection::Refused { body } => {
                Poll::Ready(body.take().map(|body| Ok(Frame::data(B::Data::from(body)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Served { body, .. } => body.is_end_stream(),
            State::Refused { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Served { body, .. } => body.size_hint(),
            State::Refused { body } => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
        }
    }
}

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitBody")
    }
}

/// A refusal may be all there is: an empty body of any kind.
impl<B: Body + Default> Default for LimitBody<B> {
    fn default() -> Self {
        LimitBody { state: State::Served { body: B::default(), held: Held::default() } }
    }
}
