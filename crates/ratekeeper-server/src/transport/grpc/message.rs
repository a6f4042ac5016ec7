//! Messages on streams: a byte that says whether it is compressed, a length of four bytes, and so many bytes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::time::timeout;

use super::bounds::MAX_MESSAGE;
use super::status::{self, GrpcCode, GrpcStatus};
use super::unfinished::UnfinishedBytes;

const PREFIX: usize = 5;

/// Reads the messages that a client sends on one stream.
pub(super) struct RequestMessages {
    body: RecvStream,
    /// What came of the next message.
    unread: BytesMut,
    /// What the connection keeps of messages like it. The client may always send more, or messages that wait for a window
    /// could fill it and wait for ever; too many of them are refused instead.
    unfinished: Arc<UnfinishedBytes>,
    /// How long the client may take to finish.
    patience: Duration,
    /// The most bytes of one message.
    most: usize,
}

impl RequestMessages {
    pub(super) fn new(body: RecvStream, unfinished: Arc<UnfinishedBytes>, patience: Duration) -> Self {
        RequestMessages { body, unread: BytesMut::new(), unfinished, patience, most: MAX_MESSAGE }
    }

    /// Reads messages of up to so many bytes.
    pub(super) fn at_most(&mut self, bytes: usize) -> &mut Self {
        self.most = bytes;
        self
    }

    /// Returns the message of a call that has exactly one.
    pub(super) async fn only<M: Message + Default>(&mut self) -> Result<M, GrpcStatus> {
        decode(self.only_bytes().await?)
    }

    /// Returns the bytes of the message of a call that has exactly one.
    pub(super) async fn only_bytes(&mut self) -> Result<Bytes, GrpcStatus> {
        let patience = self.patience;
        let both = async {
            let first = self.next().await?;
            // The client's half of the stream must have ended, or the answer would cut it off.
            let second = self.next().await?;
            Ok::<_, GrpcStatus>((first, second))
        };
        let mut both = pin!(both);
        // Almost every call is complete when it is looked at, and needs no timer.
        let both = match poll_fn(|context| Poll::Ready(both.as_mut().poll(context))).await {
            Poll::Ready(both) => both?,
            Poll::Pending => timeout(patience, both).await.map_err(|_| late())??,
        };
        match both {
            (Some(message), None) => Ok(message),
            (None, _) => Err(GrpcStatus::invalid("no message; a request has one")),
            (Some(_), Some(_)) => Err(GrpcStatus::invalid("several messages; a request has one")),
        }
    }

    /// Returns the next message, if there is one.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, GrpcStatus> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            match poll_fn(|context| self.body.poll_data(context)).await {
                Some(Ok(mut data)) => {
                    // Allows the client to send as much again. A stream that was reset in the meantime needs no window.
                    let _ = self.body.flow_control().release_capacity(data.len());
                    // Almost every message is whole: then it is not copied.
                    if self.unread.is_empty()
                        && let Some(len) = self.whole(&data)?
                    {
                        let message = data.split_to(PREFIX + len).slice(PREFIX..);
                        self.keep(&data)?;
                        return Ok(Some(message));
                    }
                    self.keep(&data)?;
                }
                None if self.unread.is_empty() => return Ok(None),
                // The stream or the message ends too early: either way the client has gone.
                Some(Err(_)) | None => return Err(GrpcStatus::invalid("the request breaks off")),
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, GrpcStatus> {
        let Some(len) = self.whole(&self.unread)? else { return Ok(None) };
        self.unfinished.let_go(PREFIX + len);
        Ok(Some(self.unread.split_to(PREFIX + len).freeze().slice(PREFIX..)))
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), GrpcStatus> {
        if !self.unfinished.keep(data.len()) {
            let message = "too many unfinished messages at once; finish some, or use more connections";
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        self.unread.extend_from_slice(data);
        Ok(())
    }

    /// Returns the length of the message at the beginning of these bytes, if all of it is there.
    fn whole(&self, bytes: &[u8]) -> Result<Option<usize>, GrpcStatus> {
        let Some((&[compressed, ref len @ ..], rest)) = bytes.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        if compressed != 0 {
            let message = "compressed messages are not understood; send `grpc-encoding: identity`";
            return Err(GrpcStatus::new(GrpcCode::Unimplemented, message));
        }
        let (len, most) = (u32::from_be_bytes(*len) as usize, self.most);
        if len > most {
            let message = format!("a message of {len} bytes; at most {most} are read");
            return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
        }
        Ok((rest.len() >= len).then_some(len))
    }
}

impl Drop for RequestMessages {
    fn drop(&mut self) {
        self.unfinished.let_go(self.unread.len());
    }
}

#[cold]
fn late() -> GrpcStatus {
    GrpcStatus::new(GrpcCode::DeadlineExceeded, "the request was never finished")
}

/// Decodes a message; the error names the field.
pub(super) fn decode<M: Message + Default>(message: Bytes) -> Result<M, GrpcStatus> {
    M::decode(message).map_err(|error| GrpcStatus::invalid(error.to_string()))
}

fn framed(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + len);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    // There is room for all of it.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    *response.headers_mut() = headers;
    response
}

/// Answers a call with one message. It is small, so there is no waiting for a window: h2 keeps it until there is.
pub(super) fn answer(reply: &mut SendResponse<Bytes>, message: &impl Message) -> Result<(), h2::Error> {
    let mut stream = reply.send_response(head(), false)?;
    stream.send_data(framed(message), false)?;
    stream.send_trailers(status::ok())
}

/// Answers a call with what went wrong.
pub(super) fn refuse(reply: &mut SendResponse<Bytes>, status: &GrpcStatus) -> Result<(), h2::Error> {
    let mut response = head();
    status.write(response.headers_mut());
    reply.send_response(response, true).map(|_| ())
}

/// The answer to a call with several messages.
pub(super) struct ResponseStream(SendStream<Bytes>);

impl ResponseStream {
    pub(super) fn begin(reply: &mut SendResponse<Bytes>) -> Result<Self, h2::Error> {
        reply.send_response(head(), false).map(ResponseStream)
    }

    /// Sends one message, as fast as the client takes it.
    pub(super) async fn send(&mut self, message: &impl Message) -> Result<(), h2::Error> {
        let mut left = framed(message);
        while !left.is_empty() {
            self.0.reserve_capacity(left.len());
            let Some(capacity) = poll_fn(|context| self.0.poll_capacity(context)).await else {
                return Err(h2::Reason::CANCEL.into());
            };
            let piece = left.split_to(capacity?.min(left.len()));
            self.0.send_data(piece, false)?;
        }
        Ok(())
    }

    /// Returns when the client is no longer interested.
    pub(super) async fn abandoned(&mut self) {
        let _ = poll_fn(|context| self.0.poll_reset(context)).await;
    }

    pub(super) fn end(mut self, status: Option<&GrpcStatus>) -> Result<(), h2::Error> {
        let mut trailers = HeaderMap::new();
        match status {
            Some(status) => status.write(&mut trailers),
            None => trailers = status::ok(),
        }
        self.0.send_trailers(trailers)
    }
}
