//! What is asked, by whom, until when.

use std::fmt;
use std::time::{Duration, Instant};

use ratekeeper::port::{Charge, ChargeAction, ChargeForce, Request};
use ratekeeper::store::LoadedKeys;
use ratekeeper::{Cost, Key, OwnedRules, StoreError};
use tokio::sync::oneshot;

use crate::reserve::Cutoff;

/// A key that outlives whoever has asked.
pub(crate) type OwnedKey = Box<[u8]>;

/// One question to the engine, which can be asked again: if the rows that it was decided on were not those of the server.
pub(crate) struct Call {
    /// Whose rows it is about, each key once.
    pub(crate) keys: Vec<OwnedKey>,
    /// When the caller has stopped waiting.
    pub(crate) deadline: Instant,
    /// How long it had until then, from the first.
    pub(crate) time: Duration,
    question: Box<dyn Question>,
}

/// What a call does, whatever it answers.
trait Question: Send {
    /// Decides on what is loaded, and remembers the answer.
    fn decide(&mut self, loaded: &LoadedKeys);
    /// Tells whoever asked: what was decided last, or why nothing was.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
    /// Returns true if nobody waits for the answer any more.
    fn is_abandoned(&self) -> bool;
}

struct Asked<T, D> {
    decide: D,
    decided: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, D> Question for Asked<T, D>
where
    T: Send,
    D: FnMut(&LoadedKeys) -> Result<T, StoreError> + Send,
{
    fn decide(&mut self, loaded: &LoadedKeys) {
        self.decided = Some((self.decide)(loaded));
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let decided = self.decided.unwrap_or_else(|| Err(unasked()));
        // Whoever has asked may have gone.
        let _ = self.reply.send(outcome.and(decided));
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// The error of a call that was given up before it was decided.
pub(crate) fn unasked() -> StoreError {
    StoreError::new(ratekeeper::StoreErrorKind::Unavailable, "the store was closed before it was asked")
}

impl Call {
    /// Returns a call about these keys, which had so much time at some instant, and where its answer comes.
    pub(crate) fn new<T: Send + 'static>(
        mut keys: Vec<OwnedKey>,
        (began, time): (Instant, Duration),
        decide: impl FnMut(&LoadedKeys) -> Result<T, StoreError> + Send + 'static,
    ) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        keys.sort_unstable();
        keys.dedup();
        let (reply, answer) = oneshot::channel();
        let question = Box::new(Asked { decide, decided: None, reply });
        (Call { keys, deadline: began + time, time, question }, answer)
    }

    /// Decides on what is loaded: its keys, as they were last seen.
    pub(crate) fn decide(&mut self, loaded: &LoadedKeys) {
        self.question.decide(loaded);
    }

    /// Tells whoever asked what was decided last, or why nothing was.
    pub(crate) fn answer(self, outcome: Result<(), StoreError>) {
        self.question.answer(outcome);
    }

    /// Returns true if it is late, or nobody waits for the answer any more: it is not to be charged.
    pub(crate) fn is_abandoned(&self, cutoff: Cutoff) -> bool {
        cutoff.has_passed(self.deadline, self.time) || self.question.is_abandoned()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

/// A request that outlives whoever has asked.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    key: OwnedKey,
    rules: OwnedRules,
    cost: Cost,
    units: Vec<(String, u64)>,
}

impl KeptRequest {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        KeptRequest {
            key: request.key.as_bytes().into(),
            rules: request.rules.into(),
            cost: request.cost,
            units: kept_units(request.units),
        }
    }

    pub(crate) fn key(&self) -> &OwnedKey {
        &self.key
    }

    /// Asks something by the request as it was.
    pub(crate) fn with<T>(
        &self,
        ask: impl FnOnce(Request<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let units: Vec<(&str, u64)> = self.units.iter().map(|(unit, amount)| (&**unit, *amount)).collect();
        ask(self.request(&units)?)
    }

    fn request<'a>(&'a self, units: &'a [(&'a str, u64)]) -> Result<Request<'a>, StoreError> {
        Ok(Request { units, ..Request::new(key(&self.key)?, self.rules.rules(), self.cost) })
    }
}

/// Charges that outlive whoever has asked.
#[derive(Debug)]
pub(crate) struct KeptCharges(Vec<(KeptRequest, ChargeAction, ChargeForce)>);

impl KeptCharges {
    pub(crate) fn of(charges: &[Charge<'_>]) -> Self {
        let kept =
            charges.iter().map(|charge| (KeptRequest::of(&charge.request), charge.action, charge.force));
        KeptCharges(kept.collect())
    }

    pub(crate) fn keys(&self) -> Vec<OwnedKey> {
        self.0.iter().map(|(request, ..)| request.key.clone()).collect()
    }

    /// Asks something by the charges as they were.
    pub(crate) fn with<T>(
        &self,
        ask: impl FnOnce(&[Charge<'_>]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let units: Vec<Vec<(&str, u64)>> = self
            .0
            .iter()
            .map(|(request, ..)| request.units.iter().map(|(unit, amount)| (&**unit, *amount)).collect())
            .collect();
        let mut charges = Vec::with_capacity(self.0.len());
        for ((request, action, force), units) in self.0.iter().zip(&units) {
            charges.push(Charge { request: request.request(units)?, action: *action, force: *force });
        }
        ask(&charges)
    }
}

/// Copies amounts of units.
pub(crate) fn kept_units(units: &[(&str, u64)]) -> Vec<(String, u64)> {
    units.iter().map(|(unit, amount)| ((*unit).to_owned(), *amount)).collect()
}

/// Returns the key of these bytes, which were one before.
pub(crate) fn key(bytes: &[u8]) -> Result<Key<'_>, StoreError> {
    Key::new(bytes)
        .map_err(|error| StoreError::new(ratekeeper::StoreErrorKind::Unsupported, error.to_string()))
}
