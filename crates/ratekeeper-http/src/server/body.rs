//! The response's body, and what lives until it ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::limit::{Seat, Tab};

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
/// tab is given back.
#[derive(Default)]
pub(super) struct Held(Option<Box<Holding>>);

type Holding = (Option<Seat>, Option<Box<Tab>>);

impl Held {
    pub(super) fn new(seat: Option<Seat>, tab: Option<Box<Tab>>) -> Self {
        // In a box, because most bodies hold nothing.
        Held((seat.is_some() || tab.is_some()).then(|| Box::new((seat, tab))))
    }

    /// The body has ended.
    fn end(&mut self) {
        if let Some(held) = self.0.take()
            && let (_, Some(tab)) = *held
        {
            tab.keep();
        }
    }

    /// The body has failed.
    fn fail(&mut self) {
        self.0 = None;
    }
}

impl<B: Body> LimitBody<B> {
    pub(super) fn new(body: B, mut held: Held) -> Self {
        // Nobody polls a body that has ended before it began.
        if held.0.is_some() && body.is_end_stream() {
            held.end();
        }
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
                    None => held.end(),
                    Some(Err(_)) => held.fail(),
                    // A body whose end is known is not polled again.
                    Some(Ok(_)) if held.0.is_some() && body.is_end_stream() => held.end(),
                    Some(Ok(_)) => {}
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
