//! Waiting for a cost, over any store.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use super::asking::{Ask, Asking};
use super::error::KeeperError;
use super::resolve::{NamedRequest, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use super::taker::{ForCost, Taker};
use super::taking::Taking;
use crate::clock::TimeSource;
use crate::port::Answer;
use crate::{Nanos, Reason};

/// The shortest pause between two questions to a store, should it deny and say that there is nothing to wait for.
const LEAST_PAUSE: Duration = Duration::from_millis(1);

/// The shortest pause between two questions for a place in flight.
const PLACE_PAUSE: Nanos = Nanos::from_millis(50);

/// A request that waits for its cost, made by [`Attempt::within`](super::Attempt::within), or for what it is to hold, made by
/// [`HoldAttempt::within`](super::HoldAttempt::within). Nothing happens until it is awaited.
///
/// Callers of one process who wait for the same key and the same plans (or the same quota) stand in line, first come,
/// first served, whatever the store is. The first in line asks the store, and asks again when the store has said that it
/// would be worth it, or when this keeper gives something back or resets the key; the others wait for the first. The store
/// is asked as often as somebody passes, not as often as somebody waits. Who waits in other processes is not known here, nor
/// what is given back there: over a shared store each process has a line of its own.
///
/// Who does not wait does not overtake those who do: while there is a line, a plain [`acquire`](Keeper::acquire) of the same
/// key and plans is refused, with [`Reason::Queued`](crate::Reason::Queued).
///
/// A refusal is a ruling, and not an error. It comes at once if the cost cannot pass in time, or if there is no place in
/// the line; its `retry_after` says when the line is expected to have passed. The observers are told of the ruling in
/// which it ends, and of nothing before.
///
/// A question that is under way when the time is up is waited for: a store elsewhere should have a time limit of its own.
///
/// # Cancel safety
///
/// Dropped, it leaves its place to the next, and takes nothing. If the store is elsewhere and was just asked, a task of
/// the current tokio runtime waits for the answer and gives back what was taken; outside of a runtime that is lost. One
/// that is kept but not polled, although it is its turn, holds up those behind it: poll it, or drop it.
#[derive(Debug)]
#[must_use = "nobody waits until it is awaited"]
pub struct Waiting<'a, T = ForCost> {
    named: NamedRequest<'a>,
    taker: T,
    patience: Duration,
    places: usize,
}

impl<'a, T: Taker> Waiting<'a, T> {
    /// How many may wait for one key, unless [`places`](Waiting::places) says otherwise.
    pub const DEFAULT_PLACES: usize = 1_024;

    pub(super) fn new(named: NamedRequest<'a>, taker: T, patience: Duration) -> Self {
        Waiting { named, taker, patience, places: Self::DEFAULT_PLACES }
    }

    /// Sets how many may wait for the key, this one included; whoever finds as many there is refused at once.
    ///
    /// At most 262,144 wait at one keeper, for all keys together.
    pub fn places(mut self, at_most: usize) -> Self {
        self.places = at_most;
        self
    }

    /// Returns the ruling now, if a store in memory lets it pass at once, or refuses it for longer than it would wait;
    /// allocates nothing then.
    ///
    /// # Errors
    ///
    /// What has to be waited for: nothing was taken yet, and the answer is given back to be awaited, or dropped.
    pub fn now(self) -> Result<Result<T::Answer, KeeperError>, Answer<'a, T::Answer, KeeperError>> {
        self.ask().now()
    }
}

impl<'a, T: Taker> IntoFuture for Waiting<'a, T> {
    type Output = Result<T::Answer, KeeperError>;
    type IntoFuture = Asking<'a, Self, T::Answer>;

    fn into_future(self) -> Self::IntoFuture {
        Asking::new(self)
    }
}

impl<'a, T: Taker> Ask<'a> for Waiting<'a, T> {
    type Answer = T::Answer;

    fn ask(self) -> Answer<'a, T::Answer, KeeperError> {
        let Waiting { named, taker, patience, places } = self;
        let keeper = named.keeper;
        let understood = match taker.understand(named) {
            Ok(understood) => understood,
            Err(error) => return Answer::ready(Err(error)),
        };
        let key = understood.key;
        let mut refused = None;
        if keeper.lines.ahead_of(&understood.request()).is_none() {
            match taker.take(keeper, understood.clone()).now() {
                Ok(Ok(ruling)) if is_over(&ruling, patience) => {
                    keeper.announce(understood.request(), &ruling);
                    return Answer::ready(Ok(taker.answer(keeper, key, ruling)));
                }
                Ok(Ok(ruling)) => refused = Some(ruling),
                Ok(Err(error)) => return Answer::ready(Err(error)),
                // It has to be awaited, and was not asked yet.
                Err(_) => {}
            }
        }
        Answer::later(async move {
            let ruling = keeper.wait(&understood, taker, patience, places, refused).await?;
            keeper.announce(understood.request(), &ruling);
            Ok(taker.answer(keeper, key, ruling))
        })
    }
}

/// Returns true if waiting is over, or cannot help: what is wanted comes after the time that is left. When a place in flight
/// is free is not known: that is waited for to the end.
fn is_over(ruling: &Ruling, left: Duration) -> bool {
    match ruling.retry_after {
        _ if ruling.allowed => true,
        None if ruling.reason == Reason::AtCapacity => left.is_zero(),
        None => true,
        Some(wait) => wait.as_duration() > left,
    }
}

/// Returns how long to wait before the store is asked again. A place in flight may be freed by somebody elsewhere, so that
/// is asked for again, at instants of which no two instances choose the same.
fn pause(ruling: &Ruling, left: Duration) -> Option<Nanos> {
    if ruling.reason != Reason::AtCapacity {
        return ruling.retry_after;
    }
    let jitter = RandomState::new().hash_one(0u8) % PLACE_PAUSE.as_nanos();
    let pause = PLACE_PAUSE.saturating_add(Nanos::from_nanos(jitter));
    Some(pause.min(Nanos::from(left)))
}

/// Polls a future once, so that it has begun; returns its output if that is all it takes.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl Keeper {
    /// Waits in line. `refused` is what a store in memory has just answered.
    async fn wait<T: Taker>(
        &self,
        understood: &Understood<'_>,
        taker: T,
        patience: Duration,
        places: usize,
        refused: Option<Ruling>,
    ) -> Result<Ruling, KeeperError> {
        let clock = TimeSource::default();
        let deadline = clock.now().saturating_add(Nanos::from(patience));
        let left = || deadline.since(clock.now()).as_duration();
        let request = understood.request();
        let ahead = self.lines.ahead_of(&request);
        let mut rest = None;
        if ahead.is_none() {
            // What was given back since has found nobody in line to be woken: a store in memory is asked again at once.
            let is_asked_again = refused.is_some();
            let ruling = match refused {
                Some(ruling) => ruling,
                None => self.take_or_give_back(understood, taker).await?,
            };
            if is_over(&ruling, left()) {
                return Ok(ruling);
            }
            rest = pause(&ruling, left()).filter(|_| !is_asked_again);
        }
        let Some(place) = self.lines.join(&request, places) else {
            return self.turn_away(understood).await;
        };
        if !place.is_first {
            // Others were faster to the line, and it is not known what they leave.
            rest = None;
        }
        let mut turn = pin!(place.turn(left()));
        // Begun before the store is asked: whoever comes later, and has a faster answer, stands behind.
        let begun = poll_once(turn.as_mut()).await;
        if let Some(ahead) = ahead {
            let refusal = self.refusal_behind(understood.clone(), ahead).await?;
            if is_over(&refusal, left()) {
                return Ok(refusal);
            }
        }
        let turn = match begun {
            Some(turn) => turn,
            None => turn.await,
        };
        let Ok(turn) = turn else {
            return self.turn_away(understood).await;
        };
        let mut seen = turn.given_back();
        loop {
            if let Some(rest) = rest {
                turn.sleep(rest.as_duration().max(LEAST_PAUSE), seen).await;
            }
            seen = turn.given_back();
            let ruling = self.take_or_give_back(understood, taker).await?;
            if is_over(&ruling, left()) {
                return Ok(ruling);
            }
            rest = pause(&ruling, left());
        }
    }

    /// Refuses somebody for whom there is no place or no time left: those in line go before whoever comes back.
    async fn turn_away(&self, understood: &Understood<'_>) -> Result<Ruling, KeeperError> {
        let ahead = self.lines.wanted(&understood.request()).unwrap_or(0);
        self.refusal_behind(understood.clone(), ahead).await
    }

    /// Takes the cost. What a store elsewhere takes although this was dropped is given back.
    async fn take_or_give_back<T: Taker>(
        &self,
        understood: &Understood<'_>,
        taker: T,
    ) -> Result<Ruling, KeeperError> {
        match taker.take(self, understood.clone()).now() {
            Ok(ruling) => ruling,
            Err(_) => Taking::new(self, understood, taker).await,
        }
    }
}
