//! The body of a reply: there already, or one message a second.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use crate::console::StatsStream;
use crate::net::Connection;

/// The body of a reply.
pub(super) enum ReplyBody {
    /// A body that is already there.
    Whole(Full<Bytes>),
    /// Messages, until the client or the server has had enough.
    Messages(BoxStream<'static, Bytes>),
}

impl ReplyBody {
    /// Returns a body that is already there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        ReplyBody::Whole(Full::new(bytes.into()))
    }

    /// Returns the messages of a stream, for as long as its client keeps up and the server does not stop.
    pub(super) fn messages(messages: StatsStream, connection: Arc<Connection>) -> Self {
        let next = async |(mut messages, connection): (StatsStream, Arc<Connection>)| {
            let message = tokio::select! {
                message = messages.next() => message,
                () = connection.stop().wait() => None,
            };
            message.map(|message| (message, (messages, connection)))
        };
        ReplyBody::Messages(stream::unfold((messages, connection), next).boxed())
    }
}

impl std::fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReplyBody::Whole(_) => "Whole(…)",
            ReplyBody::Messages(_) => "Messages(…)",
        })
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ReplyBody::Whole(body) => Pin::new(body).poll_frame(context),
            ReplyBody::Messages(messages) => messages
                .as_mut()
                .poll_next(context)
                .map(|message| message.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_end_stream(),
            ReplyBody::Messages(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => body.size_hint(),
            ReplyBody::Messages(_) => SizeHint::default(),
        }
    }
}
