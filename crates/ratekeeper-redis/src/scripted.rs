//! A store made of scripts, wherever they run.

use std::borrow::Borrow;
use std::sync::{Arc, Weak};

use ratekeeper::port::{
    Answer, Charge, Clock, Grant, HoldChange, HoldOutcome, HoldRequest, Judgment, Request, Standing, Store,
    Whole,
};
use ratekeeper::state::OnUnreadable;
use ratekeeper::{Charged, Cost, Decision, Nanos, Plan, Rules, StoreError, StoreErrorKind, Timestamp};
use redis::Value;

use crate::encoding::Encodings;
use crate::error::RedisError;
use crate::exchange::{
    HeldRules, RuleGroup, ScriptDecision, ScriptQuestion, ScriptReply, StateRepair, groups, sort_by_shape,
};
use crate::forget::forget;
use crate::hold_cache::HoldCache;
use crate::link::{Deadline, Link};
use crate::losses::LossCounters;
use crate::script::{Script, ScriptCall, ScriptLibrary, ScriptVerb};
use crate::server_clock::ServerClock;

/// How often one request is sent to the script at most, beside once for each of its keys: again only after a state had to
/// be replaced, which all may have to be, or a window had passed. Each is rare, and none can follow itself for long.
const MOST_ROUNDS: usize = 8;

/// What runs scripts: a link to servers, or in tests a Lua interpreter without any.
pub(crate) trait RunScript: Send + Sync + 'static {
    /// Runs a script where its keys are: one round trip, and another if the server does not know the script yet.
    fn run(
        &self,
        script: &Script,
        call: &ScriptCall,
    ) -> impl Future<Output = Result<Value, RedisError>> + Send;

    /// Returns the link to the servers that hold the keys; none if they cannot be listed.
    fn link(&self) -> Option<&Link> {
        None
    }

    /// Returns the end of the time that a command has from now; none if there is no end.
    ///
    /// # Errors
    ///
    /// `NoRuntime` outside of a tokio runtime.
    fn deadline(&self) -> Result<Option<Deadline>, RedisError> {
        Ok(None)
    }

    /// Returns a number that keys have in common which one script can reach.
    fn slot(&self, _key: &[u8]) -> usize {
        0
    }
}

impl RunScript for Link {
    fn run(
        &self,
        script: &Script,
        call: &ScriptCall,
    ) -> impl Future<Output = Result<Value, RedisError>> + Send {
        self.run(script, call)
    }

    fn link(&self) -> Option<&Link> {
        Some(self)
    }

    fn deadline(&self) -> Result<Option<Deadline>, RedisError> {
        self.deadline().map(Some)
    }

    fn slot(&self, key: &[u8]) -> usize {
        self.slot(Some(key))
    }
}

/// A store made of scripts and what runs them.
pub(crate) struct ScriptedStore<R> {
    pub(crate) runner: R,
    pub(crate) library: ScriptLibrary,
    pub(crate) settings: ScriptSettings,
    pub(crate) clock: ServerClock,
    pub(crate) losses: LossCounters,
    pub(crate) holds: HoldCache,
    /// Itself, for tasks that outlive the caller; nothing if it is not [shared](ScriptedStore::shared).
    pub(crate) this: Weak<Self>,
}

/// How states are named, written and read.
#[derive(Clone, Debug)]
pub(crate) struct ScriptSettings {
    pub(crate) prefix: String,
    pub(crate) encodings: Encodings,
    pub(crate) on_unreadable: OnUnreadable,
    /// The time of a test, instead of the server's.
    pub(crate) given: Option<Arc<dyn Clock>>,
}

impl<R: RunScript> ScriptedStore<R> {
    pub(crate) fn new(runner: R, library: ScriptLibrary, settings: ScriptSettings) -> Self {
        ScriptedStore {
            runner,
            library,
            settings,
            clock: ServerClock::default(),
            losses: LossCounters::default(),
            holds: HoldCache::default(),
            this: Weak::new(),
        }
    }

    /// Returns the store as several share it.
    pub(crate) fn shared(self) -> Arc<Self> {
        Arc::new_cyclic(|this| ScriptedStore { this: Weak::clone(this), ..self })
    }

    /// Returns the rules of a request by the keys that hold their states.
    pub(crate) fn groups<'a>(&'a self, request: &Request<'a>) -> Result<Vec<RuleGroup<'a>>, StoreError> {
        groups(request, &self.settings.encodings)
    }

    /// Returns the rules of a request, in the order in which the script goes over them, and what it has decided about
    /// them; none if there are no rules.
    async fn decide<'a>(
        &'a self,
        question: impl Into<ScriptQuestion>,
        request: &Request<'a>,
    ) -> Result<Option<(Vec<RuleGroup<'a>>, ScriptDecision)>, StoreError> {
        let mut groups = self.groups(request)?;
        sort_by_shape(&mut groups);
        self.decide_on(question, request, groups).await
    }

    pub(crate) async fn decide_on<'a>(
        &'a self,
        question: impl Into<ScriptQuestion>,
        request: &Request<'a>,
        groups: Vec<RuleGroup<'a>>,
    ) -> Result<Option<(Vec<RuleGroup<'a>>, ScriptDecision)>, StoreError> {
        if groups.is_empty() {
            return Ok(None);
        }
        let decision = self.ask(question.into(), request, &groups).await?;
        Ok(Some((groups, decision)))
    }

    /// Sends a request to the script until it has decided: once, but for a state that must be replaced first, or a window
    /// that has just passed.
    async fn ask(
        &self,
        question: ScriptQuestion,
        request: &Request<'_>,
        groups: &[RuleGroup<'_>],
    ) -> Result<ScriptDecision, StoreError> {
        let question = question.of(groups);
        let script = self.library.decide(&question.shape(groups));
        let prefix = &self.settings.prefix;
        let answer = self.converse(question.verb, &script, groups, |guess, given| {
            question.call(request, groups, None, prefix, guess, given)
        });
        match answer.await? {
            ScriptReply::Decided(decided) => Ok(decided),
            _ => Err(RedisError::script_fault("an answer about a hold").into()),
        }
    }

    /// Calls a script until it has answered: once, but for a state that must be replaced first, or a window that has just
    /// passed. `call` writes the call, given a guess at the server's time and the time of a test.
    pub(crate) async fn converse<'g>(
        &self,
        verb: ScriptVerb,
        script: &Script,
        groups: &[impl Borrow<RuleGroup<'g>> + Sync],
        call: impl Fn(&dyn Fn() -> Timestamp, Option<Timestamp>) -> ScriptCall + Send + Sync,
    ) -> Result<ScriptReply, StoreError> {
        let mut server_time = None;
        let rounds = MOST_ROUNDS + groups.len();
        for _ in 0..rounds {
            let given = self.settings.given.as_ref().map(|clock| clock.now());
            let call = call(&|| given.or(server_time).unwrap_or_else(|| self.clock.guess()), given);
            let value = self.runner.run(script, &call).await?;
            match ScriptReply::read(value, verb, groups)? {
                ScriptReply::OtherWindow(now) => {
                    self.clock.correct(now);
                    // Not a guess from there: the server's clock has not gone back since.
                    server_time = Some(now);
                }
                ScriptReply::Unread { group, found } => {
                    let key = call.parts().nth(group).unwrap_or_default();
                    self.repair(groups[group].borrow(), key, &found).await?;
                }
                answer => return Ok(answer),
            }
        }
        let what = format!("a script has asked to be called again {rounds} times in a row");
        Err(RedisError::script_fault(&what).into())
    }

    /// Charges the cost, or nothing.
    async fn take(&self, request: Request<'_>) -> Result<Standing, StoreError> {
        request.check()?;
        self.lapse(&request).await?;
        let decided = self.decide(ScriptVerb::Acquire, &request).await?;
        let Some((groups, script)) = decided else { return Ok(Standing::of(UNLIMITED)) };
        script.acquire(&groups)
    }

    /// Returns what would be decided.
    async fn look(&self, request: Request<'_>) -> Result<Standing, StoreError> {
        if has_places(&request) {
            return self.look_held(request).await;
        }
        request.check()?;
        self.lapse(&request).await?;
        let decided = self.decide(ScriptVerb::Peek, &request).await?;
        let Some((groups, script)) = decided else { return Ok(Standing::of(UNLIMITED)) };
        script.peek(&groups)
    }

    /// Replaces a state that the script could not read, unless it was replaced meanwhile.
    pub(crate) async fn repair(
        &self,
        group: &RuleGroup<'_>,
        key: &[u8],
        found: &Value,
    ) -> Result<(), StoreError> {
        let StateRepair { call, loss } = StateRepair::of(group, key, found, self.settings.on_unreadable)?;
        let value = self.runner.run(&self.library.replace, &call).await?;
        // Another caller may have been faster, and has counted.
        if let (Some(loss), Value::Int(1)) = (loss, value) {
            self.losses.record(loss, group.plan, key);
        }
        Ok(())
    }
}

impl<R: RunScript> Store for ScriptedStore<R> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move { Ok(self.take(request).await?.decision) })
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(self.take(request))
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(self.look(request))
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        Answer::later(async move {
            request.check()?;
            self.lapse(&request).await?;
            let decided = self.decide(ScriptVerb::Debit, &request).await?;
            let Some((groups, script)) = decided else { return Ok(Standing::of(UNLIMITED)) };
            script.debit(&groups)
        })
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        Answer::later(self.charge_all(charges, whole))
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        Answer::later(async move {
            request.check_up_to()?;
            self.lapse(&request).await?;
            let (least, wanted) = (request.cost, request.at_cost(most.max(request.cost)));
            match self.decide(ScriptQuestion::at_least(least), &wanted).await? {
                Some((mut groups, script)) => script.acquire_up_to(&mut groups, least),
                None => Ok(Grant::without_state(wanted.cost, UNLIMITED)),
            }
        })
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        Answer::later(async move { Ok(self.look(request).await?.decision) })
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        Answer::later(self.make_hold(hold))
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        Answer::later(self.make_change(change))
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        Answer::later(async move {
            request.check()?;
            self.lapse(&request).await?;
            let decided = self.decide(ScriptQuestion::refund(charged.when()), &request).await?;
            let Some((groups, script)) = decided else { return Ok(UNLIMITED) };
            script.refund(&groups, charged)
        })
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        Answer::later(async move {
            let ended = match request.rules {
                Rules::Quota(_) => 0,
                rules => self.end_holds(request.key, rules).await?,
            };
            let forget = request.at_cost(Cost::ZERO);
            let decided = match has_places(&request) {
                false => self.decide(ScriptVerb::Forget, &forget).await?,
                true => {
                    let encodings = &self.settings.encodings;
                    let held = HeldRules::asking(request.rules.plans(), || Cost::ZERO, encodings)?;
                    self.decide_on(ScriptVerb::Forget, &forget, held.groups).await?
                }
            };
            let live = decided.map_or(Ok(0), |(groups, script)| script.live(&groups))?;
            Ok(live + ended)
        })
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        Answer::later(async move {
            let Some(link) = self.runner.link() else {
                return Err(StoreError::new(StoreErrorKind::Unsupported, "keys cannot be listed here"));
            };
            forget(link, &self.settings.prefix, prefix).await
        })
    }
}

/// Returns true if any rule limits what is in flight, in shadow or not.
fn has_places(request: &Request<'_>) -> bool {
    !request.is_plain() && request.rules.plans().any(Plan::has_places)
}

/// The decision without any rules: there is nothing to exceed.
pub(crate) const UNLIMITED: Decision = Decision::allow(u64::MAX, u64::MAX, Nanos::ZERO);

impl<R> std::fmt::Debug for ScriptedStore<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedStore").field("settings", &self.settings).finish_non_exhaustive()
    }
}
