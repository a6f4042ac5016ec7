//! MessagePack over TCP: a length of four bytes, then a request; answers in the order of the requests.
//!
//! ```text
//! mod       the transport, and its framing       reader    MessagePack to values
//! request   bodies to requests                   answer    decisions to bodies
//! ```

mod answer;
mod reader;
mod request;

use std::sync::Arc;

use crate::engine::Engine;
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
        let talk = Talk { msgpack: self, authenticated, midway: false, answered: false };
        Box::pin(stream::serve(talk, socket, connection))
    }
}

/// One client's side of the server, without its socket.
struct Talk {
    msgpack: Arc<MsgPack>,
    authenticated: bool,
    midway: bool,
    answered: bool,
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
                Ok(Some(mut waiting)) => {
                    waiting.key = base + waiting.key.start..base + waiting.key.end;
                    buffers.waiting.push(waiting);
                    if buffers.waiting.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                Ok(None) => {
                    self.decide(buffers).await;
                    answer::welcome(&mut buffers.output);
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

    fn is_midway(&self) -> bool {
        self.midway
    }

    fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}

impl Talk {
    /// Understands one body; nothing to wait for if it was the right token.
    fn request(&mut self, body: &[u8]) -> Result<Option<Waiting>, Mistake> {
        match Request::parse(body, self.msgpack.engine.limits())? {
            Request::Throttle { key, quota, cost } if self.authenticated => {
                Ok(Some(Waiting { key, quota, cost, dialect: Dialect::Packed }))
            }
            Request::Throttle { .. } => Err(Mistake("authentication required: send [2, token]".to_owned())),
            Request::Auth(token) => match self.msgpack.tokens.role(token) {
                Some(_) => {
                    self.authenticated = true;
                    Ok(None)
                }
                None if self.msgpack.tokens.are_needed() => Err(Mistake("wrong token".to_owned())),
                None => Err(Mistake("no token is asked for here".to_owned())),
            },
        }
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
