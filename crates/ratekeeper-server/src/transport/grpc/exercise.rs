//! Any bytes as the messages of a call, for tests and for fuzzing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ratekeeper::testkit::fuzz::check_message;
use tokio::time::timeout;

use super::call;
use super::call_head::{CallHead, FieldMeaning};
use super::channel::CallChannel;
use super::context::GrpcTransport;
use super::message::RequestMessages;
use super::reply::{Reply, ReplyEnd};
use super::unfinished::UnfinishedBytes;
use crate::engine::{fuzz_engine, fuzz_tokens};
use crate::net::Connection;
use crate::stream::{in_runtime, pieces};

/// What is called, by the low bits of the first byte.
const PATHS: [&str; 16] = [
    "/throttlecrab.RateLimiter/Throttle",
    "/ratekeeper.v1.RateLimiter/Acquire",
    "/ratekeeper.v1.RateLimiter/Peek",
    "/ratekeeper.v1.RateLimiter/Refund",
    "/ratekeeper.v1.RateLimiter/Debit",
    "/ratekeeper.v1.RateLimiter/Hold",
    "/ratekeeper.v1.RateLimiter/Settle",
    "/ratekeeper.v1.RateLimiter/Cancel",
    "/ratekeeper.v1.RateLimiter/Extend",
    "/ratekeeper.v1.RateLimiter/Reset",
    "/ratekeeper.v1.RateLimiter/Forget",
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/none",
];
/// A token is asked for, and shown.
const NEEDS_TOKEN: u8 = 0x10;
/// The client is on another machine.
const IS_REMOTE: u8 = 0x20;
/// The bytes have the prefixes of their messages already.
const IS_FRAMED: u8 = 0x40;

/// How long a call may take, by a clock that goes on as soon as everybody waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls a method with these bytes, whole and in pieces: a byte that tells which, four that tell how long the pieces are, and
/// the message.
///
/// # Panics
///
/// The answer depends on the pieces, or an error is not one short line.
pub(crate) fn exercise(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut framed = bytes.to_vec();
    if flags & IS_FRAMED == 0 && bytes.len() >= 4 {
        let len = u32::try_from(bytes.len() - 4).unwrap_or(u32::MAX);
        framed.splice(4..4, [&[0][..], &len.to_be_bytes()].concat());
    }
    let (pieces, stream) = pieces(&framed);
    let whole = Called::whole(*flags, stream);
    let cut = Called::arriving(*flags, pieces);
    assert_eq!(whole, cut, "the answer does not depend on how the message comes");
}

/// What a call was answered.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    /// The messages of the answer, without the ids of holds, which are chosen by chance.
    messages: Vec<u8>,
    /// How it ended: none if it did not. The number of the status, and its text.
    end: Option<Option<(i32, String)>>,
}

impl Called {
    fn whole(flags: u8, stream: &[u8]) -> Self {
        let head = head(flags);
        let max = head.method.map_or(0, |method| method.max_message());
        let channel = head.method.is_some_and(|method| method.is_streaming()).then(CallChannel::default);
        let messages = RequestMessages::whole(stream.to_vec(), max);
        Self::of(flags, head, |_| messages, channel, [].into_iter())
    }

    fn arriving<'a>(flags: u8, pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        let head = head(flags);
        let max = head.method.map_or(0, |method| method.max_message());
        let channel = CallChannel::default();
        let arriving = |grpc: &GrpcTransport| {
            RequestMessages::arriving(channel.clone(), UnfinishedBytes::new(&grpc.pool), max, PATIENCE)
        };
        Self::of(flags, head, arriving, Some(channel.clone()), pieces)
    }

    fn of<'a>(
        flags: u8,
        head: CallHead,
        messages: impl FnOnce(&GrpcTransport) -> RequestMessages,
        channel: Option<CallChannel>,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let tokens = fuzz_tokens(flags & NEEDS_TOKEN != 0);
        let peer = if flags & IS_REMOTE != 0 { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
        let grpc = Arc::new(GrpcTransport::new(fuzz_engine(), tokens, PATIENCE));
        let messages = messages(&grpc);
        let reply = Reply::new(Vec::new(), channel.clone());
        let mut call = pin!(call::answer(grpc, Connection::alone_from(peer.into()), head, messages, reply));
        let (mut pieces, mut answer, mut is_ended) = (pieces, Vec::new(), false);
        let ended = poll_fn(|context| {
            loop {
                if let Poll::Ready((_, reply)) = call.as_mut().poll(context) {
                    return Poll::Ready(reply);
                }
                let Some(channel) = &channel else { return Poll::Pending };
                let sent = channel.work(true, true).answer;
                answer.extend_from_slice(&sent);
                match pieces.next() {
                    Some(piece) => channel.receive(piece, false),
                    None if !is_ended => {
                        is_ended = true;
                        channel.receive(&[], true);
                    }
                    None if !sent.is_empty() => {}
                    None => return Poll::Pending,
                }
            }
        });
        let ended = in_runtime(async { timeout(PATIENCE, ended).await.ok() });
        if let Some(channel) = &channel {
            answer.extend_from_slice(&channel.work(true, true).answer);
        }
        let end = ended.map(|reply| {
            answer.extend_from_slice(&reply.message);
            assert!(!matches!(reply.end, ReplyEnd::Unwritten | ReplyEnd::Unsupported), "{:?}", reply.end);
            reply.end.status().map(|status| (status.number(), status.message().to_owned()))
        });
        if let Some(Some((code, message))) = &end {
            check_message(message);
            assert!(![4, 13, 14].contains(code), "the server is to blame: {code} {message}");
        }
        Called { messages: without_ids(answer), end }
    }
}

fn head(flags: u8) -> CallHead {
    let mut head = CallHead::default();
    let path = PATHS[usize::from(flags & 0xf)];
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        ("content-type", "application/grpc"),
        ("authorization", "Bearer admin"),
    ];
    for (name, value) in fields {
        head.add(FieldMeaning::of(name.as_bytes(), value.as_bytes()), value.as_bytes());
    }
    head
}

/// Returns messages without the ids of holds.
fn without_ids(mut messages: Vec<u8>) -> Vec<u8> {
    let mut run = 0;
    for at in 0..messages.len() {
        run = if messages[at].is_ascii_hexdigit() { run + 1 } else { 0 };
        if run >= 32 {
            messages[at + 1 - 32..=at].fill(b'0');
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seeds are worth something only if they get somewhere.
    #[test]
    fn methods_answer_their_messages() {
        let framed = |message: &[u8]| {
            [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
        };
        let throttle = Called::whole(0, &framed(b"\x0a\x01k\x10\x02\x18\x01\x20\x3c"));
        assert_eq!((throttle.end, throttle.messages.is_empty()), (Some(None), false));
        let acquire = Called::whole(1, &framed(b"\x0a\x01k\x12\x04free"));
        assert_eq!((acquire.end, acquire.messages.is_empty()), (Some(None), false));
        let rls = Called::whole(11, &framed(b"\x0a\x04edge\x12\x0b\x0a\x09\x0a\x04user\x12\x01b"));
        assert_eq!((rls.end, rls.messages.is_empty()), (Some(None), false));
        assert_eq!(
            Called::whole(13, &framed(b"")).end,
            None,
            "it is watched for as long as the client stays"
        );
        assert_eq!(Called::whole(14, &framed(b"\x3a\x01*")).end, Some(None));
        assert_eq!(Called::whole(15, &framed(b"")).end.unwrap().unwrap().0, 12);
    }

    #[test]
    fn messages_may_be_cut_anywhere() {
        for flags in 0..0x80 {
            for message in
                [&b""[..], b"\x0a\x01k\x12\x04free", b"\x0a\x04edge\x12\x0b\x0a\x09\x0a\x04user\x12\x01b"]
            {
                exercise(&[&[flags, 0, 1, 2, 3], message].concat());
            }
        }
    }
}
