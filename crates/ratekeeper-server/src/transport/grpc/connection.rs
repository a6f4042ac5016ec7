//! One connection: all calls that a read brings are answered by one write, on the task that read them.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, ReadBuf};

use super::aging::{AgeStage, ConnectionAging};
use super::bounds::MAX_MESSAGE;
use super::call;
use super::call_head::CallHead;
use super::call_state::{CallState, FreshCall};
use super::channel::CallChannel;
use super::context::{GrpcTransport, NAME};
use super::http2::{FieldBlock, Http2, Http2Code, Http2Event, QueueProgress};
use super::message::RequestMessages;
use super::method::GrpcMethod;
use super::outbox::Outbox;
use super::reply::{Reply, ReplyEnd};
use super::status::GrpcStatus;
use super::unfinished::UnfinishedBytes;
use super::waiting_call::{Answered, MOST_GIVEN_UP, WaitingCall};
use crate::net::{Connection, LoopBudget, Socket, SocketClosing, StopWatch, defer};
use crate::stream::{Buffers, HIGH_WATER};
use crate::watch::LogThrottle;

static FLOOD_LOG: LogThrottle = LogThrottle::new();

/// Serves one client until it leaves, breaks the protocol, or the server stops.
pub(super) fn serve(
    grpc: Arc<GrpcTransport>,
    socket: Socket,
    connection: Arc<Connection>,
) -> impl Future<Output = ()> + Send {
    // Its preface.
    connection.owes();
    let age = grpc.age;
    let mut client = GrpcConnection::new(grpc, socket, Arc::clone(&connection), call::answer);
    async move {
        let mut aging = age.map(|age| ConnectionAging::new(age, connection.id()));
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
}

/// How an attempt to take what was read ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// More must be read.
    All,
    /// The answers must be sent before there can be more.
    Full,
    /// The connection is over.
    Over,
}

struct GrpcConnection<C, F> {
    grpc: Arc<GrpcTransport>,
    connection: Arc<Connection>,
    /// What requests that are not whole take.
    unfinished: Arc<UnfinishedBytes>,
    /// Answers a call.
    call: C,
    socket: Socket,
    http2: Http2<CallState>,
    /// The unfinished frame of a client without buffers.
    parked: Vec<u8>,
    outbox: Outbox,
    budget: LoopBudget,
    /// Streams whose calls have not begun.
    fresh: Vec<u32>,
    /// Streams whose calls have a channel.
    channels: Vec<u32>,
    waiting: FuturesUnordered<WaitingCall<F>>,
    /// How many of them wait for nobody.
    given_up: usize,
    /// What the last call was in, for the next: only while there is something to do.
    spare: SpareRoom<F>,
    closing: Option<SocketClosing>,
}

/// Allocations that one call leaves to the next.
struct SpareRoom<F> {
    call: Option<Pin<Box<F>>>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl<F> Default for SpareRoom<F> {
    fn default() -> Self {
        SpareRoom { call: None, request: Vec::new(), reply: Vec::new() }
    }
}

impl<C, F> GrpcConnection<C, F>
where
    C: Fn(Arc<GrpcTransport>, Arc<Connection>, CallHead, RequestMessages, Reply) -> F,
    F: Future<Output = Answered>,
{
    fn new(grpc: Arc<GrpcTransport>, socket: Socket, connection: Arc<Connection>, call: C) -> Self {
        let mut outbox = Outbox::default();
        let http2 = Http2::new(outbox.bytes());
        GrpcConnection {
            unfinished: UnfinishedBytes::new(&grpc.pool),
            grpc,
            connection,
            call,
            socket,
            http2,
            parked: Vec::new(),
            outbox,
            budget: LoopBudget::default(),
            fresh: Vec::new(),
            channels: Vec::new(),
            waiting: FuturesUnordered::new(),
            given_up: 0,
            spare: SpareRoom::default(),
            closing: None,
        }
    }

    /// Asks the client to send no more calls; those that it has sent are answered.
    fn leave(&mut self) {
        if self.http2.is_new() {
            // It has not even said that it is a client.
            self.closing.get_or_insert_default();
        }
        self.http2.leave(self.outbox.bytes());
    }

    /// Tells the client why, and answers nothing more.
    #[cold]
    fn cut(&mut self, output: &mut Vec<u8>) {
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
        self.http2.fail(Http2Code::EnhanceYourCalm, output);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.closing.is_none() {
            let mut buffers = Buffers::lend(&mut self.parked);
            let polled = self.poll_serve(context, &mut buffers);
            buffers.park(&mut self.parked);
            self.spare = SpareRoom::default();
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(closing)) => self.closing = Some(closing),
                // The client has gone.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
            }
        }
        // Nobody will be answered any more.
        self.waiting = FuturesUnordered::new();
        let Some(closing) = &mut self.closing else { return Poll::Ready(()) };
        match self.outbox.poll(&mut self.socket, context, &mut Vec::new()) {
            Poll::Ready(Ok(())) => closing.poll(&mut self.socket, &self.connection, context).map(|_| ()),
            Poll::Ready(Err(_)) => Poll::Ready(()),
            Poll::Pending => {
                self.connection.owes();
                Poll::Pending
            }
        }
    }

    /// Reads and answers until there is nothing to do, or others have to be served.
    fn poll_serve(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut Buffers,
    ) -> Poll<io::Result<SocketClosing>> {
        loop {
            let mut pass = Pass::default();
            let taken = self.read(context, buffers, &mut pass)?;
            let output = &mut buffers.output;
            self.begin_fresh(context, output);
            self.poll_waiting(context, output);
            self.serve_channels(output);
            self.budget.spend(output.len());
            let was_clogged = self.outbox.is_clogged();
            pass.has_written = was_clogged || !output.is_empty();
            let sent = self.outbox.poll(&mut self.socket, context, output)?;
            self.report(&pass, !buffers.unread().is_empty() && taken == Taken::All);
            if self.http2.has_failed() {
                return Poll::Ready(Ok(SocketClosing::after_mistake()));
            }
            if pass.is_eof {
                return Poll::Ready(Ok(SocketClosing::default()));
            }
            if self.http2.is_done() && sent.is_ready() {
                return Poll::Ready(Ok(SocketClosing::after_leaving()));
            }
            if sent.is_pending() {
                return Poll::Pending;
            }
            // Short requests may have long answers.
            if pass.is_over || (taken == Taken::Full && self.budget.is_spent()) {
                defer(context);
                return Poll::Pending;
            }
            // There may be more to read than was, as long as the client did not take its answers.
            if taken == Taken::All && !was_clogged {
                return Poll::Pending;
            }
        }
    }

    /// Writes the answers of calls that have waited.
    fn poll_waiting(&mut self, context: &mut Context<'_>, output: &mut Vec<u8>) {
        // Almost always there are none.
        while !self.waiting.is_empty()
            && let Poll::Ready(Some((stream, answered))) = self.waiting.poll_next_unpin(context)
        {
            if let Some(answered) = answered {
                self.given_up -= usize::from(self.http2.state(stream).is_none());
                self.deliver(stream, answered, output);
            }
        }
    }

    /// Reads, and takes what was read, until there is no more of it; not while the client does not take its answers.
    fn read(
        &mut self,
        context: &mut Context<'_>,
        buffers: &mut Buffers,
        pass: &mut Pass,
    ) -> io::Result<Taken> {
        if self.outbox.is_clogged() {
            return Ok(Taken::All);
        }
        loop {
            let taken = self.take(context, buffers, pass);
            if taken != Taken::All {
                return Ok(taken);
            }
            if self.budget.is_spent() {
                pass.is_over = true;
                return Ok(taken);
            }
            let mut room = ReadBuf::new(buffers.room());
            let polled = Pin::new(&mut self.socket).poll_read(context, &mut room);
            let len = room.filled().len();
            match polled {
                Poll::Ready(result) => result?,
                Poll::Pending => {
                    self.budget.waited();
                    return Ok(taken);
                }
            }
            if len == 0 {
                pass.is_eof = true;
                return Ok(taken);
            }
            buffers.filled(len);
            pass.has_read = true;
            self.budget.spend(len);
        }
    }

    /// Takes the frames that were read.
    fn take(&mut self, context: &mut Context<'_>, buffers: &mut Buffers, pass: &mut Pass) -> Taken {
        loop {
            let (unread, output) = buffers.parts();
            if output.len() >= HIGH_WATER {
                return Taken::Full;
            }
            let (len, event) = self.http2.step(unread, output);
            match event {
                Http2Event::Starved => return Taken::All,
                Http2Event::Nothing => {}
                Http2Event::Request { stream, head, is_ended: true } => {
                    self.begin_whole(context, stream, head, &[], output);
                }
                Http2Event::Request { stream, head, is_ended: false } => {
                    if let Some(state) = self.http2.state(stream) {
                        state.fresh = Some(FreshCall { head, body: Vec::new() });
                        self.fresh.push(stream);
                    }
                }
                Http2Event::Data { stream, bytes, is_ended } => {
                    self.data(context, stream, bytes, is_ended, output);
                }
                Http2Event::Reset { state } => {
                    self.given_up += usize::from(state.give_up(self.given_up < MOST_GIVEN_UP));
                }
                Http2Event::Flood => {
                    self.cut(output);
                    return Taken::Over;
                }
                Http2Event::Failed => return Taken::Over,
            }
            buffers.consume(len);
            // A frame that leaves its block open completes nothing.
            pass.has_completed |= !self.http2.is_midway();
        }
    }

    #[inline]
    fn data(
        &mut self,
        context: &mut Context<'_>,
        stream: u32,
        bytes: &[u8],
        is_ended: bool,
        output: &mut Vec<u8>,
    ) {
        let Some(state) = self.http2.state(stream) else { return };
        match (&mut state.fresh, &state.channel) {
            (Some(fresh), _) if !is_ended => fresh.body.extend_from_slice(bytes),
            (fresh @ Some(_), _) => {
                if let Some(FreshCall { head, mut body }) = fresh.take() {
                    // Almost every message comes with one frame, and is not copied but once.
                    if body.is_empty() {
                        self.begin_whole(context, stream, head, bytes, output);
                    } else {
                        body.extend_from_slice(bytes);
                        self.begin_whole(context, stream, head, &body, output);
                    }
                }
            }
            (None, Some(channel)) => channel.receive(bytes, is_ended),
            // It is answered already, or needs nothing of this.
            (None, None) => {}
        }
    }

    /// Begins a call whose request is there.
    #[inline]
    fn begin_whole(
        &mut self,
        context: &mut Context<'_>,
        stream: u32,
        head: CallHead,
        request: &[u8],
        output: &mut Vec<u8>,
    ) {
        let mut channel = None;
        if head.method.is_some_and(GrpcMethod::is_streaming) {
            channel = Some(self.open_channel(stream));
        }
        let mut room = std::mem::take(&mut self.spare.request);
        room.clear();
        room.extend_from_slice(request);
        let messages = RequestMessages::whole(room, max_message(&head));
        self.begin(context, stream, head, messages, channel, output);
    }

    /// Begins the calls whose requests are not whole: they wait for the rest.
    fn begin_fresh(&mut self, context: &mut Context<'_>, output: &mut Vec<u8>) {
        for stream in std::mem::take(&mut self.fresh) {
            let Some(state) = self.http2.state(stream) else { continue };
            let Some(FreshCall { head, body }) = state.fresh.take() else { continue };
            let max = max_message(&head);
            let channel = self.open_channel(stream);
            channel.receive(&body, false);
            let (unfinished, patience) = (Arc::clone(&self.unfinished), self.grpc.patience);
            let messages = RequestMessages::arriving(channel.clone(), unfinished, max, patience);
            self.begin(context, stream, head, messages, Some(channel), output);
        }
    }

    fn open_channel(&mut self, stream: u32) -> CallChannel {
        let channel = CallChannel::default();
        if let Some(state) = self.http2.state(stream) {
            state.channel = Some(channel.clone());
            self.channels.push(stream);
        }
        channel
    }

    #[inline]
    fn begin(
        &mut self,
        context: &mut Context<'_>,
        stream: u32,
        head: CallHead,
        messages: RequestMessages,
        channel: Option<CallChannel>,
        output: &mut Vec<u8>,
    ) {
        let is_streaming = head.method.is_some_and(GrpcMethod::is_streaming);
        let mut room = std::mem::take(&mut self.spare.reply);
        room.clear();
        let (grpc, connection) = (Arc::clone(&self.grpc), Arc::clone(&self.connection));
        let call = (self.call)(grpc, connection, head, messages, Reply::new(room, channel));
        let mut call = match self.spare.call.take() {
            Some(mut spare) => {
                spare.as_mut().set(call);
                spare
            }
            None => Box::pin(call),
        };
        // Almost every call is complete, and decided at once.
        match call.as_mut().poll(context) {
            Poll::Ready(answered) => {
                self.deliver(stream, answered, output);
                self.spare.call = Some(call);
            }
            Poll::Pending => {
                let (handle, registration) = AbortHandle::new_pair();
                if let Some(state) = self.http2.state(stream) {
                    (state.waits, state.is_streaming) = (Some(handle), is_streaming);
                    self.waiting.push(WaitingCall::new(stream, Abortable::new(call, registration)));
                }
            }
        }
    }

    /// Writes the answer to a call.
    #[inline]
    fn deliver(&mut self, stream: u32, (messages, reply): Answered, output: &mut Vec<u8>) {
        match reply.end {
            ReplyEnd::Message => self.http2.answer(stream, &reply.message, output),
            ReplyEnd::Refused(status) => self.refuse(stream, &status, output),
            ReplyEnd::Stream(status) => {
                self.serve_channel(stream, true, output);
                let mut trailers = FieldBlock::default();
                match status {
                    Some(status) => status.write(&mut trailers),
                    None => trailers = FieldBlock::answered(),
                }
                self.http2.end(stream, trailers, output);
            }
            ReplyEnd::Unsupported => self.http2.unsupported(stream, output),
            ReplyEnd::Unwritten => self.refuse(stream, &GrpcStatus::internal(), output),
        }
        self.spare.request = messages.into_room();
        self.spare.reply = reply.message;
    }

    #[cold]
    fn refuse(&mut self, stream: u32, status: &GrpcStatus, output: &mut Vec<u8>) {
        let mut head = FieldBlock::head();
        status.write(&mut head);
        self.http2.refuse(stream, &head, output);
    }

    /// Passes on what calls have taken of their requests, and sent of their answers.
    fn serve_channels(&mut self, output: &mut Vec<u8>) {
        if self.channels.is_empty() {
            return;
        }
        let mut channels = std::mem::take(&mut self.channels);
        channels.retain(|stream| {
            let has_room = self.http2.is_sent(*stream) && !self.outbox.is_clogged();
            self.serve_channel(*stream, has_room, output)
        });
        self.channels = channels;
    }

    /// Returns false if the stream is over.
    fn serve_channel(&mut self, stream: u32, has_room: bool, output: &mut Vec<u8>) -> bool {
        let Some(state) = self.http2.state(stream) else { return false };
        let Some(channel) = &state.channel else { return false };
        let work = channel.work(state.has_begun, has_room);
        state.has_begun |= work.begins;
        if work.taken > 0 {
            self.http2.release(stream, work.taken, output);
        }
        if work.begins {
            self.http2.begin(stream, output);
        }
        self.http2.send_data(stream, &work.answer, output);
        true
    }

    /// Reports whether the client or the server has to act next.
    fn report(&mut self, pass: &Pass, has_unread: bool) {
        let (is_clogged, is_midway) = (self.outbox.is_clogged(), has_unread || self.http2.is_midway());
        let queue = self.http2.queue_progress();
        if !(pass.has_read || pass.has_written) {
            return;
        }
        // A frame does not excuse a client that takes no answers, nor taking one a frame that never ends.
        let takes_answers = !is_clogged && queue != QueueProgress::Stuck;
        if takes_answers && (pass.has_completed || (pass.has_written && !is_midway)) {
            self.connection.settled();
        }
        if is_clogged || is_midway || queue != QueueProgress::Empty {
            self.connection.owes();
        }
    }
}

/// What happened while a connection was served.
#[derive(Debug, Default)]
struct Pass {
    has_read: bool,
    /// A frame was completed.
    has_completed: bool,
    has_written: bool,
    /// The client will send nothing more.
    is_eof: bool,
    /// Others have to be served first.
    is_over: bool,
}

fn max_message(head: &CallHead) -> usize {
    head.method.map_or(MAX_MESSAGE, GrpcMethod::max_message)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use ratekeeper::{MemoryStore, Registry};
    use test_support::wait::PATIENCE;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::engine::Engine;
    use crate::request::RequestLimits;
    use crate::secret::LiveTokens;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    async fn sockets() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, server) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (client.unwrap(), Socket::Plain(server.unwrap().0))
    }

    fn transport() -> Arc<GrpcTransport> {
        let store = MemoryStore::builder().build();
        let engine = Arc::new(Engine::in_memory(store, Registry::default(), RequestLimits::default()));
        Arc::new(GrpcTransport::new(engine, LiveTokens::default(), Duration::from_secs(30)))
    }

    /// However much a client has sent, some 32 KiB of it are taken before others have their turn.
    #[tokio::test]
    async fn a_turn_comes_to_its_end() {
        let (mut client, server) = sockets().await;
        let mut served = GrpcConnection::new(transport(), server, Connection::alone(), call::answer);
        // Frames that nobody knows, and that are no crumbs: nothing is unexpected about them.
        let frame = [b"\0\x3f\xf7\xee\0\0\0\0\0".as_slice(), &[0; 16_375]].concat();
        let sent = tokio::spawn(async move {
            client.write_all(PREFACE).await.unwrap();
            client.write_all(&frame.repeat(40)).await.unwrap();
            client
        });
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 0;
        while !sent.is_finished() || served.socket.queued() > 0 {
            let before = served.socket.queued();
            assert!(served.poll(&mut context).is_pending());
            // More may have come meanwhile, but never less than this was taken.
            assert!(before.saturating_sub(served.socket.queued()) < 64 * 1024);
            turns += 1;
            tokio::task::yield_now().await;
        }
        assert!(turns >= 10, "640 KiB in {turns} turns");
    }

    /// An idle connection keeps neither buffers nor calls, and a call that waits is no larger than need be.
    #[tokio::test]
    async fn a_whole_call_is_answered_and_leaves_nothing_behind() {
        let (mut client, server) = sockets().await;
        let mut served = GrpcConnection::new(transport(), server, Connection::alone(), call::answer);
        let fields = b"\x83\x86\x04\x22/throttlecrab.RateLimiter/Throttle\x0f\x10\x10application/grpc";
        let message = b"\0\0\0\0\x09\x0a\x01k\x10\x02\x18\x01\x20\x3c";
        let call =
            [b"\0\0\x39\x01\x04\0\0\0\x01", &fields[..], b"\0\0\x0e\0\x01\0\0\0\x01", message].concat();
        client.write_all(&[PREFACE, &call].concat()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"grpc-status\x010") {
            let mut context = Context::from_waker(Waker::noop());
            assert!(served.poll(&mut context).is_pending());
            tokio::task::yield_now().await;
            let mut piece = [0; 4_096];
            if let Ok(Ok(len)) = tokio::time::timeout(Duration::from_millis(1), client.read(&mut piece)).await
            {
                answer.extend_from_slice(&piece[..len]);
            }
        }
        assert!(answer.windows(8).any(|bytes| bytes == b"\x08\x01\x10\x02\x18\x01\x28\x3c"), "{answer:?}");
        assert!(served.waiting.is_empty() && served.parked.capacity() == 0 && !served.outbox.is_clogged());
        let size = size_of_call(&served.call);
        assert!(size < 4_096, "a call takes {size} bytes");
    }

    /// Polls until the client has read so many answers, whose streams are returned.
    async fn answered<C, F>(
        served: &mut GrpcConnection<C, F>,
        client: &mut TcpStream,
        count: usize,
    ) -> Vec<u8>
    where
        C: Fn(Arc<GrpcTransport>, Arc<Connection>, CallHead, RequestMessages, Reply) -> F,
        F: Future<Output = Answered>,
    {
        let (mut said, mut streams) = (Vec::new(), Vec::new());
        while streams.len() < count {
            let read = std::future::poll_fn(|context| {
                assert!(served.poll(context).is_pending());
                let mut piece = [0; 4_096];
                let mut room = ReadBuf::new(&mut piece);
                Pin::new(&mut *client).poll_read(context, &mut room).map_ok(|()| room.filled().to_vec())
            });
            said.extend(tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap());
            // Trailers: fields that end their stream.
            streams = said
                .windows(9)
                .filter(|head| head[..5] == *b"\0\0\x0f\x01\x05")
                .map(|head| head[8])
                .collect();
        }
        streams
    }

    /// A remote store answers when it does. A call that was given up is asked to its end, so that whoever asks learns how the
    /// store fares; one whose request never came to its end is not waited for.
    #[tokio::test]
    async fn calls_that_wait_are_answered_in_any_order_and_may_be_given_up() {
        let (mut client, server) = sockets().await;
        let stores = std::sync::Mutex::new(Vec::new());
        let call = |_, _, _, messages, mut reply: Reply| {
            let (store, answer) = tokio::sync::oneshot::channel::<()>();
            stores.lock().unwrap().push(store);
            async move {
                answer.await.unwrap();
                reply.message.extend([0; 5]);
                reply.end = ReplyEnd::Message;
                (messages, reply)
            }
        };
        let mut served = GrpcConnection::new(transport(), server, Connection::alone(), call);
        let opened = |stream: u8| [b"\0\0\x03\x01\x05\0\0\0", &[stream][..], b"\x83\x86\x84"].concat();
        let unfinished = b"\0\0\x03\x01\x04\0\0\0\x07\x83\x86\x84";
        let calls = [PREFACE, &opened(1), &opened(3), &opened(5), unfinished];
        client.write_all(&calls.concat()).await.unwrap();
        while stores.lock().unwrap().len() < 4 {
            assert!(served.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            tokio::task::yield_now().await;
        }
        let mut stores = std::mem::take(&mut *stores.lock().unwrap()).into_iter();
        let (first, second, third) = (stores.next().unwrap(), stores.next().unwrap(), stores.next().unwrap());
        let fourth = stores.next().unwrap();
        third.send(()).unwrap();
        assert_eq!(answered(&mut served, &mut client, 1).await, [5]);
        let reset = |stream: u8| [b"\0\0\x04\x03\0\0\0\0", &[stream][..], b"\0\0\0\x08"].concat();
        client.write_all(&[reset(1), reset(7)].concat()).await.unwrap();
        let given_up = async {
            while !fourth.is_closed() {
                assert!(served.poll(&mut Context::from_waker(Waker::noop())).is_pending());
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, given_up).await.unwrap();
        assert_eq!((served.given_up, served.waiting.len()), (1, 2));
        first.send(()).unwrap();
        second.send(()).unwrap();
        assert_eq!(answered(&mut served, &mut client, 1).await, [3]);
        assert_eq!((served.given_up, served.waiting.len()), (0, 0));
    }

    fn size_of_call<C, F>(_: &C) -> usize
    where
        C: Fn(Arc<GrpcTransport>, Arc<Connection>, CallHead, RequestMessages, Reply) -> F,
    {
        size_of::<F>()
    }
}
