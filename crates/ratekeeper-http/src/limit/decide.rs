//! One request decided: at once if that can be, and otherwise in a future.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Cost, Decision, Name, Nanos, Reason, Ruling};
use tokio::time::Instant;

use super::{
    Charge, Failure, InFlight, Pass, PlanOf, Queue, Rate, Refusal, Seat, Settings, Standings, Tab, Verdict,
    expected,
};
use crate::instant::later;
use crate::key::{ExtractError, KeyBuf, RequestView};

/// What a request asks for.
pub(crate) struct Asked<'a> {
    pub(crate) key: KeyBuf,
    pub(crate) plan: Cow<'a, str>,
    pub(crate) cost: Cost,
}

impl Asked<'_> {
    fn into_owned(self) -> Asked<'static> {
        Asked { key: self.key, plan: Cow::Owned(self.plan.into_owned()), cost: self.cost }
    }
}

pub(crate) type Deciding = Pin<Box<dyn Future<Output = Verdict> + Send>>;

impl Settings {
    /// Whose request it is, and what it asks for.
    pub(crate) fn ask<'a>(&'a self, request: &RequestView<'a>) -> Result<Asked<'a>, Failure> {
        let mut key = KeyBuf::new();
        self.by.extract(request, &mut key).map_err(Failure::Key)?;
        if key.as_bytes().is_empty() {
            return Err(Failure::Key(ExtractError::Empty));
        }
        let plan = match self.rate.as_ref().map(|rate| &rate.plan) {
            Some(PlanOf::Fixed(name)) => Cow::Borrowed(name.as_str()),
            Some(PlanOf::Picked(pick)) => pick(request),
            None => Cow::Borrowed(self.name.as_str()),
        };
        Ok(Asked { key, plan, cost: self.cost.of(request) })
    }

    /// The verdict, if nobody has to be waited for. Otherwise nothing was taken.
    pub(crate) fn decide_now(&self, asked: &Asked<'_>) -> Option<Verdict> {
        let key = asked.key.as_bytes();
        let mut pass = Pass::default();
        if let Some(in_flight) = &self.in_flight {
            match in_flight.turnstiles.visit(key, 1).try_pass() {
                Some(seat) => pass.sit(in_flight, seat),
                None if self.queue.is_some() => return None,
                None => return Some(self.full(in_flight, asked)),
            }
        }
        let Some(rate) = &self.rate else { return Some(Verdict::Pass(pass)) };
        if let Some(queue) = &self.queue
            && queue.lines.wanted(key).is_some()
        {
            return None;
        }
        // The key was checked to be one.
        let ruling = rate.keeper.acquire(asked.key.key().ok()?, &*asked.plan, asked.cost).now().ok()?;
        match ruling {
            Ok(ruling) if !ruling.allowed && self.queue.is_some() => None,
            Ok(ruling) => Some(self.rule(rate, pass, &ruling, *ruling.decision(), asked)),
            Err(error) => Some(Verdict::Fail(Box::new(Failure::Keeper(error)))),
        }
    }

    /// The verdict, whoever has to be waited for.
    pub(crate) fn decide_later(self: &Arc<Self>, asked: Asked<'_>, wait: bool) -> Deciding {
        let (settings, asked) = (Arc::clone(self), asked.into_owned());
        Box::pin(async move {
            settings
                .decide(&asked, wait)
                .await
                .unwrap_or_else(|error| Verdict::Fail(Box::new(Failure::Keeper(error))))
        })
    }

    async fn decide(&self, asked: &Asked<'_>, wait: bool) -> Result<Verdict, KeeperError> {
        let queue = self.queue.as_ref().filter(|_| wait);
        let patience = queue.map_or(Duration::ZERO, |queue| queue.wait);
        let deadline = later(Instant::now(), patience);
        let mut pass = Pass::default();
        if let Some(in_flight) = &self.in_flight {
            let visit = in_flight.turnstiles.visit(asked.key.as_bytes(), 1);
            match visit.pass(patience).await {
                Ok(seat) => pass.sit(in_flight, seat),
                Err(_) => return Ok(self.full(in_flight, asked)),
            }
        }
        let Some(rate) = &self.rate else { return Ok(Verdict::Pass(pass)) };
        let (ruling, decision) = match &self.queue {
            Some(queue) if wait => rate.queued(queue, asked, deadline).await?,
            // Who does not wait does not overtake those who do.
            Some(queue) => match queue.lines.wanted(asked.key.as_bytes()) {
                Some(ahead) => rate.turned_away(asked, ahead).await?,
                None => rate.asked(asked).await?,
            },
            None => rate.asked(asked).await?,
        };
        Ok(self.rule(rate, pass, &ruling, decision, asked))
    }

    /// The verdict of a ruling.
    fn rule(
        &self,
        rate: &Rate,
        mut pass: Pass,
        ruling: &Ruling,
        decision: Decision,
        asked: &Asked<'_>,
    ) -> Verdict {
        let told = match (&rate.own, ruling.plan()) {
            (Some(own), _) => Arc::clone(own),
            (None, Some(plan)) => rate.told.of(plan),
            // Held to no plan at all: the keeper was told to go on without one that is missing.
            (None, None) => return Verdict::Pass(pass),
        };
        if !decision.allowed {
            let rule = told.rule(decision.rule).cloned();
            pass.standings.rate = Some((told, decision));
            return self.refuse(pass.standings, decision, decision.retry_after, rule, asked);
        }
        pass.standings.rate = Some((told, decision));
        if self.charge != Charge::OnArrival {
            pass.tab = Tab::of(ruling, &rate.keeper, &asked.key, self.charge).map(Box::new);
        }
        Verdict::Pass(pass)
    }

    /// As many are in flight as may be.
    fn full(&self, in_flight: &InFlight, asked: &Asked<'_>) -> Verdict {
        let limit = in_flight.turnstiles.limit();
        let mut decision = Decision::deny(limit, 0, None, Nanos::ZERO);
        decision.reason = Reason::AtCapacity;
        let standings = Standings { in_flight: Some((Arc::clone(&in_flight.told), decision)), rate: None };
        let expected = in_flight.turnstiles.expected_wait(asked.key.as_bytes());
        self.refuse(standings, decision, expected, in_flight.told.rule(0).cloned(), asked)
    }

    fn refuse(
        &self,
        standings: Standings,
        decision: Decision,
        expected: Option<Nanos>,
        rule: Option<Name>,
        asked: &Asked<'_>,
    ) -> Verdict {
        let rule = rule.unwrap_or_else(|| self.name.clone());
        let key = asked.key.as_bytes().into();
        Verdict::Refuse(Box::new(Refusal { standings, decision, expected, rule, key }))
    }
}

impl Pass {
    fn sit(&mut self, in_flight: &InFlight, seat: Seat) {
        let decision = Decision::allow(in_flight.turnstiles.limit(), seat.available(), Nanos::ZERO);
        self.standings.in_flight = Some((Arc::clone(&in_flight.told), decision));
        self.seat = Some(Box::new(seat));
    }
}

impl Rate {
    async fn asked(&self, asked: &Asked<'_>) -> Result<(Ruling, Decision), KeeperError> {
        let key = asked.key.key()?;
        let ruling = self.keeper.acquire(key, &*asked.plan, asked.cost).await?;
        let decision = *ruling.decision();
        Ok((ruling, decision))
    }

    /// First come, first served, whatever the store is: the first in line asks again when the store said it would be
    /// worth it, the others wait for the first, and who comes while there is a line goes to its end.
    async fn queued(
        &self,
        queue: &Queue,
        asked: &Asked<'_>,
        deadline: Instant,
    ) -> Result<(Ruling, Decision), KeeperError> {
        let key = asked.key.as_bytes();
        let ahead = queue.lines.wanted(key);
        if ahead.is_none() {
            let (ruling, decision) = self.asked(asked).await?;
            if decision.allowed || is_in_vain(decision.retry_after, deadline) {
                return Ok((ruling, decision));
            }
        }
        let visit = queue.lines.visit(key, asked.cost.get());
        if let Some(ahead) = ahead {
            let (ruling, refused) = self.turned_away(asked, ahead).await?;
            if is_in_vain(refused.retry_after, deadline) {
                return Ok((ruling, refused));
            }
        }
        let Ok(_first) = visit.pass(deadline.saturating_duration_since(Instant::now())).await else {
            // There was no place, or no time left: those who have one go before whoever comes back.
            return self.turned_away(asked, queue.lines.wanted(key).unwrap_or(0)).await;
        };
        loop {
            let (ruling, decision) = self.asked(asked).await?;
            if decision.allowed || is_in_vain(decision.retry_after, deadline) {
                return Ok((ruling, decision));
            }
            tokio::time::sleep(decision.retry_after.unwrap_or(Nanos::ZERO).as_duration()).await;
        }
    }

    /// What to answer to somebody whom the line has no place or no time for, behind others who want `ahead` together.
    /// Nothing is taken, and it is a denial even if there is room: that is for those in line.
    async fn turned_away(&self, asked: &Asked<'_>, ahead: u64) -> Result<(Ruling, Decision), KeeperError> {
        let key = asked.key.key()?;
        let ruling = self.keeper.peek(key, &*asked.plan, asked.cost).await?;
        let mut decision = *ruling.decision();
        decision.retry_after = expected::wait(&ruling, ahead, asked.cost);
        if decision.allowed {
            (decision.allowed, decision.reason) = (false, Reason::Queued);
        }
        Ok((ruling, decision))
    }
}

/// Whether waiting cannot help: the deadline comes first.
fn is_in_vain(wait: Option<Nanos>, deadline: Instant) -> bool {
    let ready = wait.and_then(|wait| Instant::now().checked_add(wait.as_duration()));
    ready.is_none_or(|ready| ready > deadline)
}
