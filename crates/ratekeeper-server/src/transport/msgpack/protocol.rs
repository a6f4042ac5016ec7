//! Frames to answers, for one client.

use std::ops::Range;
use std::sync::Arc;

use super::answer::{self, PREFIX};
use super::body::{BodyError, PackBody};
use super::framing::MsgPackFraming;
use super::verb::PackVerb;
use super::verbs;
use crate::net::Connection;
use crate::request::{PlanVerb, ThrottleDialect};
use crate::responder::Responder;
use crate::secret::{ShownRole, UNASKED};
use crate::stream::{
    Buffers, HIGH_WATER, MAX_BATCH, MAX_COSTLY, MAX_REQUEST, PendingThrottle, Progress, StreamProtocol,
    decide,
};

/// One client's side of the protocol, without its socket.
pub(super) struct MsgPackProtocol {
    responder: Arc<Responder>,
    connection: Arc<Connection>,
    authenticated: bool,
    /// The role of the token that the client has shown.
    role: Option<ShownRole>,
    midway: bool,
    answered: bool,
    /// True if the client has waited before the next token is checked.
    has_paused: bool,
}

impl MsgPackProtocol {
    pub(super) fn new(responder: Arc<Responder>, connection: Arc<Connection>) -> Self {
        let authenticated = !responder.tokens().are_needed();
        MsgPackProtocol {
            responder,
            connection,
            authenticated,
            role: None,
            midway: false,
            answered: false,
            has_paused: false,
        }
    }
}

impl StreamProtocol for MsgPackProtocol {
    async fn answer(&mut self, buffers: &mut Buffers) -> Progress {
        let mut costly = 0;
        let end = loop {
            if buffers.output.len() >= HIGH_WATER {
                break Progress::Full;
            }
            if costly >= MAX_COSTLY {
                break Progress::Paused;
            }
            if self.authenticated && buffers.take_repeated::<MsgPackFraming>() {
                self.answered = true;
                if buffers.pending.len() >= MAX_BATCH {
                    self.decide(buffers).await;
                    continue;
                }
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
            match self.read(body) {
                Ok(PackBody::Throttle { key, quota, cost, repeats }) => {
                    let (key, dialect) = (base + key.start..base + key.end, ThrottleDialect::Throttle);
                    let pending = PendingThrottle { key, quota, cost, dialect };
                    if let Some(head) = repeats {
                        buffers.remember::<MsgPackFraming>(PREFIX + len, PREFIX + head, &pending);
                    }
                    buffers.pending.push(pending);
                    if buffers.pending.len() >= MAX_BATCH {
                        self.decide(buffers).await;
                    }
                }
                Ok(PackBody::Auth(token)) => {
                    self.decide(buffers).await;
                    if !std::mem::take(&mut self.has_paused)
                        && self.responder.check(&self.connection).must_wait()
                    {
                        self.midway = false;
                        break Progress::Guess;
                    }
                    self.authenticate(base + token.start..base + token.end, buffers);
                }
                Ok(PackBody::Verb { verb, .. }) => {
                    self.decide(buffers).await;
                    costly += u8::from(verb == PackVerb::Plans(PlanVerb::Reset));
                    // Boxed: what is kept across this wait would otherwise enlarge every idle connection.
                    Box::pin(self.verb(verb, base..base + len, buffers)).await;
                }
                Err(BodyError(message)) => {
                    self.responder.metrics().failed();
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
        self.responder.check(&self.connection).pause().await;
        self.has_paused = true;
    }

    fn is_midway(&self) -> bool {
        self.midway
    }

    fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }
}

impl MsgPackProtocol {
    fn read(&self, body: &[u8]) -> Result<PackBody, BodyError> {
        match PackBody::read(body, self.responder.limits())? {
            PackBody::Verb { token: Some(token), .. } if !self.authenticated => Ok(PackBody::Auth(token)),
            PackBody::Throttle { .. } | PackBody::Verb { .. } if !self.authenticated => {
                Err(BodyError("authentication required: send [2, token]".to_owned()))
            }
            body => Ok(body),
        }
    }

    /// Answers what is asked for by the map that lies there in the input.
    async fn verb(&self, verb: PackVerb, body: Range<usize>, buffers: &mut Buffers) {
        let mut out = std::mem::take(&mut buffers.output);
        let right = match verb {
            PackVerb::Plans(verb) if verb.admin_verb().is_some() => {
                self.responder.right(self.role, self.connection.is_local())
            }
            _ => UNASKED,
        };
        verbs::answer(&self.responder, right, verb, &buffers.input()[body], &mut out).await;
        buffers.output = out;
    }

    /// Answers a client that has sent a token.
    fn authenticate(&mut self, token: Range<usize>, buffers: &mut Buffers) {
        let role = self.responder.check(&self.connection).role(&buffers.input()[token]);
        if role.is_some() {
            (self.authenticated, self.role) = (true, role);
            return answer::welcome(&mut buffers.output);
        }
        self.responder.metrics().failed();
        let is_known = self.responder.tokens().can_be_shown();
        let why = if is_known { "wrong token" } else { "no token is asked for here" };
        answer::refuse(&mut buffers.output, why);
    }

    async fn decide(&self, buffers: &mut Buffers) {
        decide(&self.responder, buffers, |out, _, decided| match decided {
            Ok(decision) => answer::decided(out, decision),
            Err(error) => answer::refuse(out, &format!("store: {error}")),
        })
        .await;
    }
}
