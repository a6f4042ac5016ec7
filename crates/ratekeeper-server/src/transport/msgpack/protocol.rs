//! MessagePack over TCP: a length of four bytes, then a request; answers in the order of the requests.
//!
//! ```text
//! mod       the transport, and its framing       reader    MessagePack to values
//! request   bodies to requests                   answer    decisions to bodies
//! ```

mod answer;
mod reader;
mod request;

use std::ops::Range;
use std::sync::Arc;

use crate::engine::Engine;
use crate::guesses::Check;
use crate::meter::Meter;
use crate::secret::Tokens;
use crate::server::{Connection, Serving, Socket, Transport};
use crate::stream::{
    self, Buffers, Conversation, Dialect, HIGH_WATER, MAX_BATCH, MAX_REQUEST, Progress, Waiting,
};
use request::{Mistake, Request};

/// The transport's name.
pub const NAME: &str = "msgpack";

/// Bytes of the length before a body.
const PREFIX: usize = 4;

/// The transport, on one event loop.
#[derive(Debug)]
pub(crate) struct MsgPack {
    engine: Arc<Engine>,
    meter: Arc<Meter>,
    tokens: Tokens,
}

impl MsgPack {
    pub(crate) fn new(engine: Arc<Engine>, tokens: Tokens) -> Self {
        let meter = engine.metrics().meter(NAME);
        MsgPack { engine, meter, tokens }
    }
}

impl Transport for MsgPack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn refusal(&self) -> &'static [u8] {
        b"\x00\x00\x00\x12\x97\xc2\x00\x00\x00\x00\x00\xaaserver full"
    }

    fn serve(self: Arc<Self>, socket: Socket, connection: Arc<Connection>) -> Serving {
        let authenticated = !self.tokens.are_needed();
        let visit = Arc::clone(&connection);
        let talk = Talk {
            msgpack: self,
            connection: visit,
            authenticated,
            midway: false,
            answered: false,
            has_paused: false,
        };
        Box::pin(stream::serve(talk, socket, connection))
    }
}

/// What a body asks for.
enum Asked {
    Take(Waiting),
    /// To be let in, by the token that lies there.
    Welcome(Range<usize>),
}

/// One client's side of the server, without its socket.
struct Talk {
    msgpack: Arc<MsgPack>,
    connection: Arc<Connection>,
    authenticated: bool,
    midway: bool,
    answered: bool,
    /// It has waited before the token that comes next is looked at.
    has_paused: bool,
}

impl Conversation for Talk {
    async fn answer(&mut self, buffers: &mut Buffers) -> Progress {
        let end = loop {
            if buffers.output.len() >= HIGH_WATER {
                break Progress::Full;
            }
            let unread = buffers.unread();
            self.midway = !unread.is_empty();
            let Some((prefix, rest)) = unread.split_first_chunk::<PREFIX>() else { break Progress::Starved };
            let len = u32::from_be_bytes(*prefix) as usize;
            if len > MAX_REQUEST {
                self.decide(buffers).await;
                let message = format!("a request of {len} bytes; at most {MAX_REQUEST} are read");
                answer::refuse(&mut buffers.output, &message);
                break Progress::Broken;
            }
            let Some(body) = rest.get(..len) else { break Progress::Starved };
            let base = buffers.start() + PREFIX;
            self.answered = true;
            match self.request(body) {
                Ok(Asked::Take(mut waiting)) => {
                    waiting.key = base + waiting.key.start..base + waiting.key.end;
                    buffers.waiting.push(waiting);
                    if buffers.waiting.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                Ok(Asked::Welcome(token)) => {
                    self.decide(buffers).await;
                    if !std::mem::take(&mut self.has_paused) && self.check().must_wait() {
                        self.midway = false;
                        break Progress::Guess;
                    }
                    self.welcome(base + token.start..base + token.end, buffers);
                }
                Err(Mistake(message)) => {
                    self.msgpack.meter.failed();
                    self.decide(buffers).await;
                    answer::refuse(&mut buffers.output, &message);
                }
            }
            buffers.consume(PREFIX + len);
        };
        self.decide(buffers).await;
        end
    }

    async fn pause(&mut self) {
        self.check().pause().await;
        self.has_paused = true;
    }

    fn is_midway(&self) -> bool {
        self.midway
    }

    fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}

impl Talk {
    /// Understands one body.
    fn request(&self, body: &[u8]) -> Result<Asked, Mistake> {
        match Request::parse(body, self.msgpack.engine.limits())? {
            Request::Throttle { key, quota, cost } if self.authenticated => {
                Ok(Asked::Take(Waiting { key, quota, cost, dialect: Dialect::Packed }))
            }
            Request::Throttle { .. } => Err(Mistake("authentication required: send [2, token]".to_owned())),
            Request::Auth(token) => Ok(Asked::Welcome(token)),
        }
    }

    /// Answers a client that has sent a token.
    fn welcome(&mut self, token: Range<usize>, buffers: &mut Buffers) {
        let role = self.check().role(&buffers.input()[token]);
        if role.is_some() {
            self.authenticated = true;
            return answer::welcome(&mut buffers.output);
        }
        self.msgpack.meter.failed();
        let is_needed = self.msgpack.tokens.are_needed();
        let why = if is_needed { "wrong token" } else { "no token is asked for here" };
        answer::refuse(&mut buffers.output, why);
    }

    /// What a token is held against.
    fn check(&self) -> Check<'_> {
        let MsgPack { engine, meter, tokens } = &*self.msgpack;
        Check { tokens, guesses: engine.guesses(), meter, transport: NAME, connection: &self.connection }
    }

    async fn decide(&self, buffers: &mut Buffers) {
        let MsgPack { engine, meter, .. } = &*self.msgpack;
        stream::decide(engine, meter, buffers, |out, _, decided| match decided {
            Ok(decision) => answer::decided(out, decision),
            Err(error) => answer::refuse(out, &format!("store: {error}")),
        })
        .await;
    }
}
