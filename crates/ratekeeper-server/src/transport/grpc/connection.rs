//! One connection: all calls that a read brings are answered by one write, on the task that read them.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;

use super::aging::{AgeStage, ConnectionAging};
use super::bounds::MAX_MESSAGE;
use super::call;
use super::context::{GrpcTransport, MAX_STREAMS, NAME};
use super::socket::{GrpcSocket, GrpcTurn};
use super::unfinished::UnfinishedBytes;
use crate::net::{Connection, Socket, StopWatch, defer};
use crate::watch::LogThrottle;

/// Bytes that one connection may have sent and nobody has looked at yet.
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Calls beyond [`MAX_STREAMS`], and other mistakes on streams, that one client may make. Each has to be remembered for
/// a while, in kilobytes; whoever makes more is sent away.
const MAX_MISTAKES: usize = 256;
/// Bytes that the fields of one request may have.
const MAX_HEADERS: u32 = 16 * 1024;

static FLOOD_LOG: LogThrottle = LogThrottle::new();

type Arrival = (Request<RecvStream>, SendResponse<Bytes>);
/// A call that waits for the rest of its request, or for a remote store.
type PendingCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves one client until it leaves, breaks the protocol, or the server stops.
pub(super) async fn serve(grpc: Arc<GrpcTransport>, socket: Socket, connection: Arc<Connection>) {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .initial_window_size(u32::try_from(2 * MAX_MESSAGE).unwrap_or(CONNECTION_WINDOW))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_local_error_reset_streams(Some(MAX_MISTAKES))
        // All calls may be given up before this loop has come to look at them.
        .max_pending_accept_reset_streams(MAX_STREAMS as usize)
        .max_header_list_size(MAX_HEADERS);
    let mut aging = grpc.age.map(|age| ConnectionAging::new(age, connection.id()));
    let socket = GrpcSocket::new(socket, Arc::clone(&connection));
    let turn = socket.turn();
    let h2 = tokio::select! {
        biased;
        shaken = builder.handshake::<_, Bytes>(socket) => shaken,
        () = connection.stop().wait() => return,
    };
    let Ok(h2) = h2 else { return };
    let mut client = GrpcConnection {
        unfinished: UnfinishedBytes::new(&grpc.pool),
        grpc,
        connection: Arc::clone(&connection),
        h2,
        arrived: Vec::new(),
        waiting: FuturesUnordered::new(),
        is_leaving: false,
        turn,
        is_cut: false,
    };
    let stop = connection.stop();
    let bell = pin!(stop.bell());
    let mut watch = StopWatch::new(stop, bell);
    let ended = watch.poll(|context, is_stopping| {
        if is_stopping {
            client.leave();
        }
        if let Some(aging) = &mut aging {
            // Polled until it waits, so that the next stage wakes this task.
            while let Poll::Ready(stage) = aging.poll(context) {
                match stage {
                    AgeStage::Leaving => client.leave(),
                    AgeStage::Over => return Poll::Ready(()),
                }
            }
        }
        client.poll(context)
    });
    ended.await;
}

struct GrpcConnection {
    grpc: Arc<GrpcTransport>,
    connection: Arc<Connection>,
    unfinished: Arc<UnfinishedBytes>,
    h2: server::Connection<GrpcSocket, Bytes>,
    arrived: Vec<Arrival>,
    waiting: FuturesUnordered<PendingCall>,
    is_leaving: bool,
    turn: Arc<GrpcTurn>,
    is_cut: bool,
}

impl GrpcConnection {
    /// Asks the client to send no more calls; those that it has sent are answered.
    fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.h2.graceful_shutdown();
        }
    }

    /// Tells the client why, and answers nothing more.
    fn cut(&mut self) {
        self.is_cut = true;
        self.grpc.responder.metrics().cut();
        let id = self.connection.id();
        if let Some(skipped) = FLOOD_LOG.is_due() {
            let transport = NAME;
            tracing::warn!(
                transport,
                id,
                skipped,
                "connection cut: more control frames than requests explain"
            );
        }
        self.h2.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // h2 wakes whoever asked last when a call is answered. Were that this task, it would be polled once more for
        // nothing, so nobody is woken after the first look; there is always another.
        let mut nobody = Context::from_waker(Waker::noop());
        let mut is_first_look = true;
        self.turn.begin();
        loop {
            if !self.is_cut && self.turn.is_flood() {
                self.cut();
            }
            // First all that have arrived: asking h2 for another call also writes the replies that are there.
            let looking = if is_first_look { &mut nobody } else { &mut *context };
            loop {
                match self.h2.poll_accept(looking) {
                    Poll::Ready(Some(Ok(arrival))) => self.arrived.push(arrival),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            // Noticed by the read that has just ended.
            let is_flood = !self.is_cut && self.turn.is_flood();
            let mut progress = is_flood || !self.arrived.is_empty();
            for arrival in self.arrived.drain(..) {
                let (request, reply) = arrival;
                let (grpc, unfinished) = (Arc::clone(&self.grpc), Arc::clone(&self.unfinished));
                let call = call::answer(grpc, Arc::clone(&self.connection), unfinished, request, reply);
                let mut call: PendingCall = Box::pin(call);
                // Almost every call is complete, and decided at once.
                if call.as_mut().poll(context).is_pending() {
                    self.waiting.push(call);
                }
            }
            while let Poll::Ready(Some(())) = self.waiting.poll_next_unpin(context) {
                progress = true;
            }
            if !progress && !is_first_look {
                if self.turn.is_over() {
                    defer(context);
                }
                return Poll::Pending;
            }
            is_first_look = false;
        }
    }
}
