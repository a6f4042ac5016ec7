//! One question to the store, and what is answered if it fails.

use super::error::KeeperError;
use super::fallback::Fallback;
use super::resolve::{AskedUnits, Understood};
use super::ruling::Ruling;
use super::setup::Keeper;
use crate::port::{Answer, Request, Standing, Store};
use crate::{Charged, Cost, Decision, FailureMode, Rules, StoreError, StoreErrorKind};

/// What a question does if it is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    /// Takes the cost. The observers are called.
    Take,
    /// Takes the cost, as one of several tries: the caller calls the observers, for the last try only.
    Try,
    /// Takes nothing, and decides nothing.
    Look,
}

/// Puts a question to a store, and hands the request and the answer to `then`: at once if the store answers at once.
#[inline]
pub(super) fn ask<'a, U: AskedUnits + 'a, T: Send, R>(
    store: &'a dyn Store,
    understood: Understood<'a, U>,
    question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Send + 'a,
    then: impl FnOnce(Understood<'a, U>, Result<T, StoreError>) -> Answer<'a, R, KeeperError> + Send + 'a,
) -> Answer<'a, R, KeeperError>
where
    R: Send + 'a,
{
    // An answer that is not ready borrows the request, which is about to move: it is dropped, and has asked nobody.
    let at_once = question(store, understood.request()).now().ok();
    match at_once {
        Some(answer) => then(understood, answer),
        None => Answer::later(async move {
            let answer = question(store, understood.request()).await;
            then(understood, answer).await
        }),
    }
}

impl Keeper {
    /// Puts a question about a cost to the store, and to the failure mode if the store fails.
    #[inline]
    pub(super) fn decide<'a, U: AskedUnits + 'a, T: Fallback + Send + 'a>(
        &'a self,
        understood: Understood<'a, U>,
        intent: Intent,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Copy + Send + 'a,
    ) -> Answer<'a, Ruling, KeeperError> {
        let request = understood.request();
        if request.rules.is_empty() {
            let unlimited = T::unlimited(request);
            return Answer::ready(Ok(self.rule(understood, intent, &unlimited, false)));
        }
        ask(&*self.store, understood, question, move |understood, answer| match answer {
            Ok(outcome) => Answer::ready(Ok(self.rule(understood, intent, &outcome, false))),
            Err(error) => self.decide_instead(understood, intent, question, error),
        })
    }

    /// Answers instead of a store that failed, as the failure mode says; the observers are called.
    #[cold]
    fn decide_instead<'a, U: AskedUnits + 'a, T: Fallback + Send + 'a>(
        &'a self,
        understood: Understood<'a, U>,
        intent: Intent,
        question: impl for<'q> Fn(&'q dyn Store, Request<'q>) -> Answer<'q, T> + Send + 'a,
        error: StoreError,
    ) -> Answer<'a, Ruling, KeeperError> {
        let rules = understood.resolved.rules();
        let mode = match intent {
            // Nothing is decided by a look.
            Intent::Look => self.failure_mode(rules, &error),
            Intent::Take | Intent::Try => self.answering_mode(rules, &error),
        };
        let instead = move |understood: Understood<'a, U>, outcome: Option<T>, is_local| {
            self.tell(|observer| observer.store_failed(&error, outcome.as_ref().map(Fallback::decision)));
            let ruling = outcome.map(|outcome| self.rule(understood, intent, &outcome, is_local));
            Answer::ready(ruling.ok_or(KeeperError::Store(error)))
        };
        if mode == FailureMode::Local {
            return ask(&*self.local, understood, question, |understood, answer| {
                instead(understood, answer.ok(), true)
            });
        }
        let outcome = T::instead(mode, understood.request());
        instead(understood, outcome, false)
    }

    /// Makes a ruling of an answer; the observers are called if it was a request to take.
    #[inline]
    fn rule<U: AskedUnits, T: Fallback>(
        &self,
        understood: Understood<'_, U>,
        intent: Intent,
        outcome: &T,
        is_local: bool,
    ) -> Ruling {
        let Understood { key, cost, units, .. } = understood;
        let granted = if intent == Intent::Look { Cost::ZERO } else { outcome.granted(cost) };
        let ruling = Ruling::new(*outcome.decision(), granted, understood.resolved, is_local);
        let ruling =
            if T::TELLS_EACH || is_local { ruling.telling(outcome.each(), is_local) } else { ruling };
        if intent == Intent::Take {
            let request = Request { key, rules: ruling.rules(), cost, units: units.list() };
            match U::IS_PLAIN {
                true => self.tell(|observer| observer.decided(&request, ruling.decision())),
                false => self.announce(request, &ruling),
            }
        }
        ruling
    }

    /// Tells the observers of a request to take that was decided.
    #[inline]
    pub(super) fn announce(&self, request: Request<'_>, ruling: &Ruling) {
        self.tell(|observer| observer.decided(&request, ruling.decision()));
        if !request.is_plain() {
            self.tell_of_shadows(&request, &ruling.standing());
        }
    }

    /// Tells the observers of plans whose rules in shadow would have denied.
    #[cold]
    pub(super) fn tell_of_shadows(&self, request: &Request<'_>, standing: &Standing) {
        for (plan, rule) in standing.would_deny(request) {
            self.tell(|observer| observer.would_deny(request, plan, rule));
        }
    }

    /// Gives a cost back to the store that took it.
    pub(super) fn give_back<'a>(
        &'a self,
        taken: Understood<'a>,
        charged: Charged,
    ) -> Answer<'a, Ruling, KeeperError> {
        let is_local = charged.was_local();
        let taker: &dyn Store = if is_local { &*self.local } else { &*self.store };
        ask(
            taker,
            taken,
            move |store, request| match request.rules.is_empty() {
                true => Answer::ready(Ok(Decision::unlimited(request))),
                false => store.refund(request, charged),
            },
            move |taken, refunded| {
                if refunded.is_ok() {
                    self.lines.gave_back(&taken.request());
                }
                let ruling = |decision| Ruling::new(decision, Cost::ZERO, taken.resolved, is_local);
                Answer::ready(refunded.map(ruling).map_err(|error| self.failed(error)))
            },
        )
    }

    /// Returns the strictest of the plans' modes, but for what is not a failure of the store.
    pub(super) fn failure_mode(&self, rules: Rules<'_>, error: &StoreError) -> FailureMode {
        let mode = match rules {
            Rules::Quota(_) => None,
            Rules::Plan(plan) => Some(plan.failure_mode()),
            Rules::Plans(plans) => plans.iter().map(|plan| plan.failure_mode()).max(),
        };
        let mode = mode.unwrap_or(self.on_store_error);
        match error.kind() {
            // What the store cannot do is the caller's mistake, and state that cannot be read is never fresh.
            StoreErrorKind::Unsupported | StoreErrorKind::Unreadable => FailureMode::Error,
            // Every race was lost to somebody who took something: there is nothing left to be open about.
            StoreErrorKind::Contended => mode.max(FailureMode::Closed),
            _ => mode,
        }
    }

    /// Returns the mode that answers for a store that has failed; the observers are called.
    pub(super) fn answering_mode(&self, rules: Rules<'_>, error: &StoreError) -> FailureMode {
        let mode = self.failure_mode(rules, error);
        self.tell(|observer| observer.failure_mode_answers(rules, mode));
        mode
    }

    /// Returns the error of a store for which nothing can stand in; the observers are called.
    pub(super) fn failed(&self, error: StoreError) -> KeeperError {
        self.tell(|observer| observer.store_failed(&error, None));
        KeeperError::Store(error)
    }
}
