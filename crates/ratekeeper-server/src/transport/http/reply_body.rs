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
pub(super) enum HttpReplyBody {
    /// A body that is already there.
    Whole(Full<Bytes>),
    /// Messages, until the client or the server has had enough.
    Messages(BoxStream<'static, Bytes>),
}

impl HttpReplyBody {
    /// Returns a body that is already there.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        HttpReplyBody::Whole(Full::new(bytes.into()))
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
        HttpReplyBody::Messages(stream::unfold((messages, connection), next).boxed())
    }
}

impl std::fmt::Debug for HttpReplyBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HttpReplyBody::Whole(_) => "Whole(…)",
            HttpReplyBody::Messages(_) => "Messages(…)",
        })
    }
}

impl Body for HttpReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            HttpReplyBody::Whole(body) => Pin::new(body).poll_frame(context),
            HttpReplyBody::Messages(messages) => messages
                .as_mut()
                .poll_next(context)
                .map(|message| message.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            HttpReplyBody::Whole(body) => body.is_end_stream(),
            HttpReplyBody::Messages(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            HttpReplyBody::Whole(body) => body.size_hint(),
            HttpReplyBody::Messages(_) => SizeHint::default(),
        }
    }
}
