//! Waiting for a rate, first come, first served, whatever the store is.

use ratekeeper::keeper::KeeperError;
use ratekeeper::{Decision, Nanos, Reason, Ruling};
use tokio::time::Instant;

use super::expected_wait::expected_wait;
use super::limit_request::LimitRequest;
use super::settings::{QueueSettings, RateSettings};

impl RateSettings {
    /// Asks the store once.
    pub(super) async fn ask(&self, request: &LimitRequest<'_>) -> Result<(Ruling, Decision), KeeperError> {
        let ruling = self.keeper.acquire(request.key.key()?, &*request.plan, request.cost).await?;
        let decision = *ruling.decision();
        Ok((ruling, decision))
    }

    /// Asks the store until it allows, in turn: the first in line asks again when the store said it would be worth it,
    /// the others wait for the first, and who comes while there is a line goes to its end. Refuses at once whoever
    /// cannot be served before the deadline, or finds no place.
    pub(super) async fn ask_in_turn(
        &self,
        queue: &QueueSettings,
        request: &LimitRequest<'_>,
        deadline: Instant,
    ) -> Result<(Ruling, Decision), KeeperError> {
        let key = request.key.as_bytes();
        let ahead = queue.turns.wanted(key);
        if ahead.is_none() {
            let (ruling, decision) = self.ask(request).await?;
            if decision.allowed || is_in_vain(decision.retry_after, deadline) {
                return Ok((ruling, decision));
            }
        }
        let visit = queue.turns.visit(key, request.cost.get());
        if let Some(ahead) = ahead {
            let (ruling, refused) = self.turn_away(request, ahead).await?;
            if is_in_vain(refused.retry_after, deadline) {
                return Ok((ruling, refused));
            }
        }
        let Ok(_turn) = visit.pass(deadline.saturating_duration_since(Instant::now())).await else {
            // There was no place, or no time left: those who have one go before whoever comes back.
            return self.turn_away(request, queue.turns.wanted(key).unwrap_or(0)).await;
        };
        loop {
            let (ruling, decision) = self.ask(request).await?;
            if decision.allowed || is_in_vain(decision.retry_after, deadline) {
                return Ok((ruling, decision));
            }
            tokio::time::sleep(decision.retry_after.unwrap_or(Nanos::ZERO).as_duration()).await;
        }
    }

    /// Returns the refusal of somebody whom the line has no place or no time for, behind others who want `ahead`
    /// together. Takes nothing. It is a denial even if there is room: that is for those in line.
    pub(super) async fn turn_away(
        &self,
        request: &LimitRequest<'_>,
        ahead: u64,
    ) -> Result<(Ruling, Decision), KeeperError> {
        let ruling = self.keeper.peek(request.key.key()?, &*request.plan, request.cost).await?;
        let mut decision = *ruling.decision();
        decision.retry_after = expected_wait(&ruling, ahead, request.cost);
        if decision.allowed {
            (decision.allowed, decision.reason) = (false, Reason::Queued);
        }
        Ok((ruling, decision))
    }
}

/// Returns true if waiting cannot help: the deadline comes first.
fn is_in_vain(wait: Option<Nanos>, deadline: Instant) -> bool {
    let ready = wait.and_then(|wait| Instant::now().checked_add(wait.as_duration()));
    ready.is_none_or(|ready| ready > deadline)
}
