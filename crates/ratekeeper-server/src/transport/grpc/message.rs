//! Messages on streams: a byte that says whether it is compressed, a length of four bytes, and so many bytes.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};

use super::channel::CallChannel;
use super::reply::{Reply, ReplyEnd};
use super::status::{GrpcCode, GrpcStatus};
use super::unfinished::{KeptBytes, UnfinishedBytes};

/// Bytes before a message.
const PREFIX: usize = 5;

/// Reads the messages that a client sends on one stream.
#[derive(Debug)]
pub(super) struct RequestMessages {
    /// What came of the request.
    unread: Vec<u8>,
    /// Where the next message begins.
    at: usize,
    /// The most bytes of one message.
    max: usize,
    rest: RequestRest,
}

/// What is not there of a request.
#[derive(Debug)]
enum RequestRest {
    /// Nothing: almost every request is whole when its call begins.
    Nothing,
    /// The client may always send more, or messages that wait for a window could fill it and wait for ever; too many of
    /// them are refused instead.
    Arriving {
        channel: CallChannel,
        /// What this request takes.
        kept: KeptBytes,
        /// How long the client may take to finish.
        patience: Duration,
    },
}

impl RequestMessages {
    /// Returns the messages of a request that is whole.
    pub(super) fn whole(request: Vec<u8>, max: usize) -> Self {
        RequestMessages { unread: request, at: 0, max, rest: RequestRest::Nothing }
    }

    /// Returns the messages of a request that is not.
    pub(super) fn arriving(
        channel: CallChannel,
        unfinished: Arc<UnfinishedBytes>,
        max: usize,
        patience: Duration,
    ) -> Self {
        let rest = RequestRest::Arriving { channel, kept: KeptBytes::new(unfinished), patience };
        RequestMessages { unread: Vec::new(), at: 0, max, rest }
    }

    /// Returns the room that the request was in.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.unread
    }

    /// Lets go of what was read, for a call that goes on without it.
    pub(super) fn forget(&mut self) {
        (self.unread, self.at) = (Vec::new(), 0);
    }

    /// Returns the message of a call that has exactly one.
    pub(super) async fn only<M: Message + Default>(&mut self) -> Result<M, GrpcStatus> {
        self.only_read(|message| decode(message)).await
    }

    /// Returns what is read from the message of a call that has exactly one.
    pub(super) async fn only_read<T>(
        &mut self,
        read: impl FnOnce(&[u8]) -> Result<T, GrpcStatus>,
    ) -> Result<T, GrpcStatus> {
        let message = match self.rest {
            RequestRest::Nothing => self.both().await?,
            RequestRest::Arriving { patience, .. } => {
                // Boxed: few requests come in pieces, and a timer would enlarge all of them.
                Box::pin(timeout(patience, self.both())).await.map_err(|_| late())??
            }
        };
        let asked = match message {
            (Some(message), None) => read(self.unread.get(message).unwrap_or_default()),
            (None, _) => Err(GrpcStatus::invalid("no message; a request has one")),
            (Some(_), Some(_)) => Err(GrpcStatus::invalid("several messages; a request has one")),
        };
        if let RequestRest::Arriving { kept, .. } = &mut self.rest {
            // It may be a mebibyte, and its call may have to wait for a store.
            self.unread = Vec::new();
            self.at = 0;
            kept.let_go(usize::MAX);
        }
        asked
    }

    /// Returns the next message, if there is one.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, GrpcStatus> {
        let patience = match self.rest {
            RequestRest::Nothing => None,
            RequestRest::Arriving { patience, .. } => Some(patience),
        };
        let Some(message) = self.advance(patience).await? else { return Ok(None) };
        let bytes = Bytes::copy_from_slice(self.unread.get(message).unwrap_or_default());
        self.unread.drain(..self.at);
        if let RequestRest::Arriving { kept, .. } = &mut self.rest {
            kept.let_go(self.at);
        }
        self.at = 0;
        Ok(Some(bytes))
    }

    /// Returns the first message and the second: the client's half of the stream must have ended, or the answer would cut
    /// it off.
    async fn both(&mut self) -> Result<(Option<Range<usize>>, Option<Range<usize>>), GrpcStatus> {
        Ok((self.advance(None).await?, self.advance(None).await?))
    }

    /// Returns where the next message lies. With patience, one that has begun is waited for so long.
    async fn advance(&mut self, patience: Option<Duration>) -> Result<Option<Range<usize>>, GrpcStatus> {
        let mut deadline = None;
        loop {
            let unread = self.unread.get(self.at..).unwrap_or_default();
            if let Some(len) = whole(unread, self.max)? {
                let from = self.at + PREFIX;
                self.at = from + len;
                return Ok(Some(from..self.at));
            }
            let is_empty = unread.is_empty();
            if !is_empty && deadline.is_none() {
                deadline = patience.map(|patience| Instant::now() + patience);
            }
            let has_more = match &mut self.rest {
                RequestRest::Nothing => false,
                RequestRest::Arriving { channel, kept, .. } => {
                    let before = self.unread.len();
                    let more = poll_fn(|context| channel.poll_request(context, &mut self.unread));
                    let has_more = match deadline {
                        None => more.await,
                        // Boxed, as above.
                        Some(deadline) => Box::pin(timeout_at(deadline, more)).await.map_err(|_| late())?,
                    };
                    let came = self.unread.len() - before;
                    channel.take(came);
                    // A request that ends with this message is read now, and takes nothing: small calls are served even
                    // while others on their connection have taken all that there is.
                    if !kept.keep(came) {
                        let message = self.unread.get(self.at..).unwrap_or_default();
                        let is_last =
                            whole(message, self.max)?.is_some_and(|len| PREFIX + len == message.len());
                        if !(is_last && channel.is_ended()) {
                            return Err(too_much());
                        }
                    }
                    has_more
                }
            };
            match has_more {
                true => {}
                false if is_empty => return Ok(None),
                false => return Err(GrpcStatus::invalid("the request breaks off")),
            }
        }
    }
}

/// Returns the length of the message at the beginning of these bytes, if all of it is there.
fn whole(bytes: &[u8], max: usize) -> Result<Option<usize>, GrpcStatus> {
    let Some((&[compressed, ref len @ ..], rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    if compressed != 0 {
        let message = "compressed messages are not understood; send `grpc-encoding: identity`";
        return Err(GrpcStatus::new(GrpcCode::Unimplemented, message));
    }
    let len = u32::from_be_bytes(*len) as usize;
    if len > max {
        let message = format!("a message of {len} bytes; at most {max} are read");
        return Err(GrpcStatus::new(GrpcCode::ResourceExhausted, message));
    }
    Ok((rest.len() >= len).then_some(len))
}

#[cold]
fn too_much() -> GrpcStatus {
    let message = "too many unfinished messages at once; finish some, or use more connections";
    GrpcStatus::new(GrpcCode::ResourceExhausted, message)
}

#[cold]
fn late() -> GrpcStatus {
    GrpcStatus::new(GrpcCode::DeadlineExceeded, "the request was never finished")
}

/// Decodes a message; the error names the field.
pub(super) fn decode<M: Message + Default>(message: impl Buf) -> Result<M, GrpcStatus> {
    M::decode(message).map_err(|error| GrpcStatus::invalid(error.to_string()))
}

/// Writes a message with its prefix.
fn frame(message: &impl Message, into: &mut Vec<u8>) {
    let len = message.encoded_len();
    into.reserve(PREFIX + len);
    into.put_u8(0);
    into.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    // There is room for all of it.
    let _ = message.encode(into);
}

/// Answers a call with one message.
pub(super) fn answer(reply: &mut Reply, message: &impl Message) {
    frame(message, &mut reply.message);
    reply.end = ReplyEnd::Message;
}

/// Answers a call with what went wrong.
pub(super) fn refuse(reply: &mut Reply, status: GrpcStatus) {
    reply.end = ReplyEnd::Refused(status);
}

/// The answer to a call with several messages.
pub(super) struct ResponseStream<'a> {
    reply: &'a mut Reply,
    channel: CallChannel,
}

impl<'a> ResponseStream<'a> {
    /// Begins an answer.
    pub(super) fn begin(reply: &'a mut Reply) -> Self {
        // Every call of a method with such answers has a channel.
        let channel = reply.channel.clone().unwrap_or_default();
        channel.begin();
        ResponseStream { reply, channel }
    }

    /// Sends one message, as fast as the client takes it.
    pub(super) async fn send(&mut self, message: &impl Message) {
        poll_fn(|context| self.channel.poll_send(context, |answer| frame(message, answer))).await;
    }

    /// Ends the answer, by what went wrong if something did.
    pub(super) fn end(self, status: Option<GrpcStatus>) {
        self.reply.end = ReplyEnd::Stream(status);
    }
}
