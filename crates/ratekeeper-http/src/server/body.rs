//! The response's body, and what lives until it ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::grpc::GRPC_STATUS;
use crate::limit::{ChargePolicy, InFlightPermit, RefundableCharge};

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
        Served { #[pin] body: B, held: HeldByBody },
        Refused { body: Option<Vec<u8>> },
    }
}

/// What a body holds until it has ended: a permit, which comes back then, and a charge, which is settled then. Dropped
/// before, the charge is refunded or kept as its policy says.
#[derive(Default)]
pub(super) struct HeldByBody {
    permit: Option<Box<InFlightPermit>>,
    charge: Option<Box<RefundableCharge>>,
    /// How many bytes are still to come, if that is known.
    left: Option<u64>,
}

impl HeldByBody {
    pub(super) fn new(permit: Option<Box<InFlightPermit>>, charge: Option<Box<RefundableCharge>>) -> Self {
        HeldByBody { permit, charge, left: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.permit.is_none() && self.charge.is_none()
    }

    /// Notes how many bytes are to come, after which nobody asks for more.
    pub(super) fn expect(&mut self, length: Option<u64>) {
        self.left = length;
        self.end_if_complete();
    }

    /// Notes that so many bytes were sent.
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

    /// Notes that the body has ended: the request was answered to the end. One that is charged on failure has not said
    /// that it succeeded.
    fn end(&mut self) {
        self.permit = None;
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
    }

    /// Reads in the trailers how a gRPC call has ended.
    fn trailers(&mut self, trailers: &HeaderMap) {
        let succeeded = trailers.get(GRPC_STATUS).is_some_and(|status| status == "0");
        if succeeded
            && self.waits_for_trailers()
            && let Some(charge) = self.charge.take()
        {
            charge.give_back();
        }
    }

    /// Notes that the connection leaves HTTP: all of the answer is there. The permit is held until the body is dropped,
    /// because nobody knows for how long the connection lasts, but that it lasts longer than its body.
    pub(super) fn answered(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.keep();
        }
    }

    /// Notes that the body has failed.
    fn fail(&mut self) {
        *self = HeldByBody::default();
    }

    fn waits_for_trailers(&self) -> bool {
        self.charge.as_ref().is_some_and(|charge| charge.policy() == ChargePolicy::OnFailure)
    }
}

impl<B: Body> LimitBody<B> {
    pub(super) fn new(body: B, held: HeldByBody) -> Self {
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

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitBody")
    }
}

/// A refusal may be all there is: an empty body of any kind.
impl<B: Body + Default> Default for LimitBody<B> {
    fn default() -> Self {
        LimitBody { state: BodyState::Served { body: B::default(), held: HeldByBody::default() } }
    }
}
