//! The response's body, and what lives until it ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::grpc::GRPC_STATUS;
use crate::limit::HeldRequest;

pin_project! {
    /// The body of a limited service's response, or of a refusal. A request is in flight until its body has ended,
    /// failed, or was dropped.
    pub struct LimitBody<B> {
        #[pin]
        state: BodyState<B>,
    }
}

pin_project! {
    #[project = BodyStateProjection]
    enum BodyState<B> {
        // Most bodies hold nothing.
        Served { #[pin] body: B, held: Option<Box<HeldRequest>> },
        Refused { body: Option<Vec<u8>> },
    }
}

impl<B: Body> LimitBody<B> {
    #[inline]
    pub(super) fn new(body: B, held: Option<Box<HeldRequest>>) -> Self {
        LimitBody { state: BodyState::Served { body, held } }
    }

    pub(super) fn refusal(body: Vec<u8>) -> Self {
        LimitBody { state: BodyState::Refused { body: (!body.is_empty()).then_some(body) } }
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
            BodyStateProjection::Served { mut body, held } => {
                let mut frame = ready!(body.as_mut().poll_frame(context));
                if let Some(held) = held {
                    match &mut frame {
                        None => held.end(),
                        Some(Err(_)) => held.fail(),
                        Some(Ok(frame)) => {
                            if let Some(trailers) = frame.trailers_mut() {
                                held.trailers(trailers);
                                if is_grpc_success(trailers) {
                                    held.succeeded();
                                }
                            }
                            // A body whose end is known is not polled again.
                            match frame.data_ref() {
                                _ if body.is_end_stream() => held.end(),
                                Some(data) => held.sent(data.remaining()),
                                None => {}
                            }
                        }
                    }
                }
                Poll::Ready(frame)
            }
            BodyStateProjection::Refused { body } => {
                Poll::Ready(body.take().map(|body| Ok(Frame::data(B::Data::from(body)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            BodyState::Served { body, .. } => body.is_end_stream(),
            BodyState::Refused { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            BodyState::Served { body, .. } => body.size_hint(),
            BodyState::Refused { body } => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
        }
    }
}

/// Returns true if a gRPC call says in these trailers that it succeeded.
fn is_grpc_success(trailers: &HeaderMap) -> bool {
    trailers.get(GRPC_STATUS).is_some_and(|status| status == "0")
}

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitBody")
    }
}

/// A refusal may be all there is: an empty body of any kind.
impl<B: Body + Default> Default for LimitBody<B> {
    fn default() -> Self {
        LimitBody { state: BodyState::Served { body: B::default(), held: None } }
    }
}
