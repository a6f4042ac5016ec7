//! Good clients: each asks at its own pace, on one connection that it replaces when it breaks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::rustls::ClientConfig;

use crate::soak::book::Book;
use crate::soak::judged::PROMISE;
use crate::soak::law::Law;
use crate::soak::plans::{COLD, ENVOY, HELD, HOLD_LEASE_MS, LEASED, OPEN, OWN, REFUNDED};
use crate::soak::seen::{HeldSpan, Outcome, Sample};
use crate::soak::timeline::Nanos;
use crate::soak::wires::{Answer, Ask, Connection, Grpc, Http, Msgpack, Resp, Told};
use test_support::bound::Admission;
use test_support::random::Random;

/// How many commands are in one write.
const PIPELINE: usize = 8;

/// Keys that are asked for now and then.
const COLD_KEYS: u64 = 50_000;

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Resp,
    Pipelined,
    Http,
    Grpc,
    Msgpack,
    Envoy,
}

impl Wire {
    pub(crate) const ALL: [Wire; 6] =
        [Wire::Resp, Wire::Pipelined, Wire::Http, Wire::Grpc, Wire::Msgpack, Wire::Envoy];

    /// The transport that it needs.
    pub(crate) fn transport(self) -> &'static str {
        match self {
            Wire::Resp | Wire::Pipelined => "resp",
            Wire::Http | Wire::Envoy => "http",
            Wire::Grpc => "grpc",
            Wire::Msgpack => "msgpack",
        }
    }

    fn pace(self) -> Duration {
        Duration::from_millis(match self {
            Wire::Pipelined => 80,
            Wire::Envoy => 60,
            _ => 35,
        })
    }
}

/// One client.
pub(crate) struct GoodClient {
    pub(crate) book: Arc<Book>,
    pub(crate) laws: Arc<Vec<Law>>,
    pub(crate) instance: usize,
    pub(crate) number: usize,
    pub(crate) wire: Wire,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) random: Random,
    /// After which it gives up on an answer, or on a connection.
    pub(crate) patience: Duration,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) pending: Pending,
}

/// What a client means to do next.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// A hold that it has to end: its id, estimate, and when it was asked for and told.
    held: Option<(String, u64, Nanos, Nanos)>,
    /// What it took and will give back: when it asked and was told, and its place in the book.
    taken: Option<(Nanos, Nanos)>,
    /// When it may ask for its own key again, and when it was told so.
    own: Option<(Nanos, Nanos)>,
}

impl GoodClient {
    /// Asks until it is told to stop.
    pub(crate) async fn run(mut self) {
        let mut ticks = interval(self.wire.pace());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut connection: Option<(Connection, u64)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            ticks.tick().await;
            // One that is not there is not asked; its clients wait for it.
            let Some(epoch) = self.book.epoch(self.instance) else { continue };
            if connection.as_ref().is_none_or(|(_, of)| *of != epoch) {
                self.release(&mut connection);
                let began = self.book.now();
                match timeout(self.patience, self.connect())
                    .await
                    .unwrap_or(Err(io::ErrorKind::TimedOut.into()))
                {
                    Ok(made) if self.book.epoch(self.instance) == Some(epoch) => {
                        self.book.pages().instances[self.instance].clients += 1;
                        connection = Some((made, epoch));
                    }
                    Ok(_) => continue,
                    Err(error) => {
                        self.sample(
                            began,
                            Outcome::Lost(format!("{:?}: cannot connect: {error}", self.wire)),
                        );
                        continue;
                    }
                }
            }
            let Some((used, epoch)) = connection.as_mut() else { continue };
            let epoch = *epoch;
            let is_well = match (used, self.wire) {
                (Connection::Resp(resp), Wire::Pipelined) => self.pipeline(resp, epoch).await,
                (used, _) => self.once(used, epoch).await,
            };
            if !is_well {
                self.release(&mut connection);
            }
        }
        self.release(&mut connection);
    }

    fn release(&self, connection: &mut Option<(Connection, u64)>) {
        if connection.take().is_some() {
            self.book.pages().instances[self.instance].clients -= 1;
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let (address, tls) = (self.address, self.tls.as_ref());
        Ok(match self.wire {
            Wire::Resp | Wire::Pipelined => Connection::Resp(Resp::connect(address, tls).await?),
            Wire::Http | Wire::Envoy => Connection::Http(Http::connect(address, tls).await?),
            Wire::Grpc => Connection::Grpc(Grpc::connect(address, tls).await?),
            Wire::Msgpack => Connection::Msgpack(Msgpack::connect(address, self.patience).await?),
        })
    }

    fn sample(&self, sent: Nanos, outcome: Outcome) {
        let (instance, client, answered) = (self.instance, self.number, self.book.now());
        self.book.pages().sample(Sample { instance, client, sent, answered, outcome });
    }

    /// Counts requests that are about to be sent.
    fn asking(&self, count: usize, epoch: u64) -> Nanos {
        let mut pages = self.book.pages();
        pages.totals.asked += count as u64;
        if let Some(counts) = pages.counts(self.instance, epoch) {
            counts.asked += count as u64;
        }
        drop(pages);
        self.book.now()
    }

    /// Several questions in one write. Returns whether the connection is still good.
    async fn pipeline(&mut self, resp: &mut Resp, epoch: u64) -> bool {
        let hot = self.random.once_in(3);
        let asks: Vec<Ask> = (0..PIPELINE)
            .map(
                |_| if hot { Ask::Acquire { key: LEASED.to_owned(), plan: LEASED } } else { self.question() },
            )
            .collect();
        let sent = self.asking(asks.len(), epoch);
        let book = Arc::clone(&self.book);
        let mut times = Vec::new();
        let told = timeout(self.patience, resp.ask(&asks, |_| times.push(book.now()))).await;
        let told = told.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
        match told {
            Ok(told) => {
                for ((ask, told), answered) in asks.iter().zip(told).zip(times) {
                    self.told(ask, &told, sent, answered, epoch);
                }
                true
            }
            Err(error) => {
                self.sample(sent, Outcome::Lost(format!("{:?}: {error}", self.wire)));
                false
            }
        }
    }

    /// One question, and what follows of an earlier one. Returns whether the connection is still good.
    async fn once(&mut self, connection: &mut Connection, epoch: u64) -> bool {
        let ask = self.next();
        let sent = self.asking(1, epoch);
        let told = timeout(self.patience, connection.ask(&ask)).await;
        match told.unwrap_or(Err(io::ErrorKind::TimedOut.into())) {
            Ok(told) => {
                let answered = self.book.now();
                self.told(&ask, &told, sent, answered, epoch);
                true
            }
            Err(error) => {
                // Whether it has ended is not known: it ends with its lease.
                if matches!(ask, Ask::Settle { .. } | Ask::Cancel { .. }) {
                    self.pending.held = None;
                }
                self.sample(sent, Outcome::Lost(format!("{:?}: {error}", self.wire)));
                false
            }
        }
    }

    /// What it asks next: first it ends what it has begun, most of the time.
    fn next(&mut self) -> Ask {
        if self.wire == Wire::Envoy {
            return Ask::Envoy { user: ENVOY.to_owned() };
        }
        let now = self.book.now();
        if let Some((id, estimate, sent, told)) = &self.pending.held {
            let (key, id, estimate) = (HELD.to_owned(), id.clone(), *estimate);
            let is_over = now > sent + HOLD_LEASE_MS * 1_000_000;
            match self.random.below(10) {
                // Somebody who never comes back: the lease ends it.
                0 => {
                    let to = sent + HOLD_LEASE_MS * 1_000_000;
                    self.book.pages().holds.push(HeldSpan { from: *told, to });
                    self.pending.held = None;
                }
                1 if !is_over => return Ask::Cancel { key, id },
                2..=6 => return Ask::Settle { key, id, tokens: estimate / 2 + self.random.below(estimate) },
                _ => {}
            }
        }
        if let Some((_, told)) = self.pending.taken {
            if self.random.once_in(2) {
                let age_ms = (now - told) / 1_000_000 + 1;
                return Ask::Refund { key: REFUNDED.to_owned(), plan: REFUNDED, age_ms };
            }
            self.pending.taken = None;
        }
        if self.wire == Wire::Resp && self.pending.own.is_none_or(|(due, _)| now >= due) {
            return Ask::Acquire { key: self.own_key(), plan: OWN };
        }
        if self.pending.held.is_none() && self.random.once_in(6) {
            let (key, tokens) = (HELD.to_owned(), 20 + self.random.below(40));
            return Ask::Hold { key, plan: HELD, tokens, lease_ms: HOLD_LEASE_MS };
        }
        self.question()
    }

    fn own_key(&self) -> String {
        format!("own:{}:{}", self.instance, self.number)
    }

    /// A question that needs no other: of the shared keys, or of one of very many.
    fn question(&mut self) -> Ask {
        if self.random.once_in(6) {
            let key = format!("cold:{}", self.random.below(COLD_KEYS));
            return if self.random.once_in(2) {
                Ask::Throttle { key }
            } else {
                Ask::Acquire { key, plan: COLD }
            };
        }
        // The last two are not taken so.
        let shared = self.laws.len() - 2;
        let plan = self.laws[self.random.index(shared)].name;
        // Over RESP nobody can tell that the failure mode let it pass.
        let is_told = !matches!(self.wire, Wire::Resp | Wire::Pipelined);
        let plan = if plan == OPEN && !is_told { "gcra" } else { plan };
        let key = plan.to_owned();
        if self.random.once_in(20) { Ask::Peek { key, plan } } else { Ask::Acquire { key, plan } }
    }

    /// Writes down what was answered.
    fn told(&mut self, ask: &Ask, told: &Told, sent: Nanos, answered: Nanos, epoch: u64) {
        let answer = match told {
            Ok(answer) => answer,
            Err(why) => {
                self.count(ask, None, epoch);
                if matches!(ask, Ask::Settle { .. } | Ask::Cancel { .. }) {
                    self.pending.held = None;
                }
                let outcome = Outcome::Failed(format!("{:?}: {ask:?}: {why}", self.wire));
                let (instance, client) = (self.instance, self.number);
                self.book.pages().sample(Sample { instance, client, sent, answered, outcome });
                return;
            }
        };
        self.count(ask, Some(answer), epoch);
        self.follow(ask, answer, sent, answered);
        let mut outcome = match answer.is_failure {
            true => Outcome::Failed(format!("{:?}: {ask:?}: answered by the failure mode", self.wire)),
            false => Outcome::Decided,
        };
        if let Ask::Acquire { plan: OWN, .. } = ask {
            outcome = self.own_key_told(answer, sent, answered).unwrap_or(outcome);
        }
        let (instance, client) = (self.instance, self.number);
        let mut pages = self.book.pages();
        if let Some(law) = self.law_of(ask)
            && !answer.is_failure
        {
            match answer.allowed {
                true => {
                    let (before, after) = (sent, answered);
                    pages.admitted[law].push(Admission { before, after, cost: 1, refunded: None });
                }
                false => pages.refused[law].push((sent, answered)),
            }
        }
        pages.sample(Sample { instance, client, sent, answered, outcome });
    }

    /// The law of a key that everybody asks for.
    fn law_of(&self, ask: &Ask) -> Option<usize> {
        let name = match ask {
            Ask::Acquire { plan, .. } => plan,
            Ask::Envoy { .. } => ENVOY,
            _ => return None,
        };
        self.laws.iter().position(|law| law.name == name)
    }

    fn count(&self, ask: &Ask, answer: Option<&Answer>, epoch: u64) {
        let takes = matches!(
            ask,
            Ask::Acquire { .. }
                | Ask::Throttle { .. }
                | Ask::Hold { .. }
                | Ask::Peek { .. }
                | Ask::Envoy { .. }
        );
        let (allowed, denied) = match answer {
            Some(answer) if takes => (u64::from(answer.allowed), u64::from(!answer.allowed)),
            _ => (0, 0),
        };
        let mut pages = self.book.pages();
        pages.totals.allowed += allowed;
        pages.totals.denied += denied;
        if let Some(counts) = pages.counts(self.instance, epoch) {
            counts.answered += 1;
            counts.allowed += allowed;
            counts.denied += denied;
        }
    }

    /// What follows of an answer: something is held, given back, or was ended.
    fn follow(&mut self, ask: &Ask, answer: &Answer, sent: Nanos, answered: Nanos) {
        match ask {
            Ask::Hold { tokens, .. } => {
                self.pending.held = answer.id.clone().map(|id| (id, *tokens, sent, answered));
            }
            Ask::Settle { tokens, .. } => self.ended(*tokens, answer, sent, answered),
            Ask::Cancel { .. } => self.ended(0, answer, sent, answered),
            Ask::Acquire { plan: REFUNDED, .. } if answer.allowed && self.wire != Wire::Pipelined => {
                self.pending.taken = Some((sent, answered));
            }
            Ask::Refund { .. } => {
                if let Some((taken, told)) = self.pending.taken.take() {
                    let law = self.laws.iter().position(|law| law.name == REFUNDED).unwrap();
                    let mut pages = self.book.pages();
                    let of = |one: &&mut Admission| one.before == taken && one.after == told;
                    if let Some(admission) = pages.admitted[law].iter_mut().rev().find(of) {
                        admission.refunded = Some(sent);
                    }
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, spent: u64, answer: &Answer, sent: Nanos, answered: Nanos) {
        let Some((_, _, held_sent, held_told)) = self.pending.held.take() else { return };
        let to = sent.min(held_sent + HOLD_LEASE_MS * 1_000_000);
        let mut pages = self.book.pages();
        pages.holds.push(HeldSpan { from: held_told, to: to.max(held_told) });
        // What is gone stays charged as it was estimated, or was forgotten: less is certain.
        let cost = if answer.state == "settled" { spent } else { 0 };
        let law = self.laws.iter().position(|law| law.name == HELD).unwrap();
        pages.admitted[law].push(Admission { before: held_sent, after: answered, cost, refunded: None });
    }

    /// Nobody else asks for this key: whoever waits as long as it was told is let through.
    fn own_key_told(&mut self, answer: &Answer, sent: Nanos, answered: Nanos) -> Option<Outcome> {
        if let Some((due, told)) = self.pending.own.take() {
            let mut pages = self.book.pages();
            // What happens to other instances is no excuse.
            let happened = pages.timeline.is_held_up(told, answered, false)
                || pages.timeline.is_disturbed(self.instance, told, answered);
            pages.judged.add(PROMISE, !happened);
            drop(pages);
            if !happened && !answer.allowed {
                let late = (sent - due) / 1_000_000;
                return Some(Outcome::Broken(format!(
                    "denied {late} ms after it was to be let through: {answer:?}"
                )));
            }
        }
        if answer.allowed {
            return None;
        }
        // Told in whole milliseconds, rounded up.
        let wait = answer.retry_after_ms.filter(|wait| *wait < 5_000)?;
        self.pending.own = Some((answered + wait * 1_000_000, answered));
        None
    }
}
