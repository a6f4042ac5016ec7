//! What becomes of a hold: it is settled, cancelled or prolonged. It has what it has taken under the plans that it was made
//! under; but what that is worth to a state is told by the quota of now, which others have written it by since.

use std::sync::Arc;

use super::budget::{Allowance, Budget, Footprint};
use super::hold_record::{HoldRecord, UNCHARGED};
use super::hold_table::HoldTable;
use super::holding::Spending;
use super::plan_set;
use super::shard::{Shard, Subject};
use crate::algorithm::composite;
use crate::port::{AmountError, HoldAction, HoldChange, HoldState, Plans, Request};
use crate::{Algorithm, Amounts, Cost, Decision, Plan, Rule, Rules, Timestamp};

/// What has become of a hold, where the key stands then, and how much was forgiven.
pub(super) type Change = (HoldState, Decision, u64);

/// The same, and the plans that it was held to.
pub(super) type ChangeOfPlans = (Change, Vec<Arc<Plan>>);

/// What an estimate is replaced by: the amounts that are said, or nothing.
#[derive(Clone, Copy, Debug)]
enum Spent<'a> {
    Said(Amounts<'a>),
    Nothing,
}

impl Spent<'_> {
    /// Returns what was spent of a rule of which so much was estimated.
    fn of(self, rule: &Rule, estimate: u64) -> u64 {
        let Spent::Said(amounts) = self else { return 0 };
        let unit = rule.unit();
        let requests = amounts.requests().filter(|_| unit.is_requests()).map(Cost::get);
        let named = || amounts.units().iter().find(|(name, _)| unit == name).map(|(_, amount)| *amount);
        requests.or_else(named).unwrap_or(estimate)
    }
}

impl Shard {
    /// Changes a hold, and tells where each of its rules stands then. None if it has ended in another way than by being settled
    /// or cancelled, or never was.
    pub(super) fn change_hold(
        &mut self,
        subject: &Subject<'_>,
        change: &HoldChange<'_>,
        now: Timestamp,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Result<Option<ChangeOfPlans>, AmountError> {
        let now = self.not_before_latest(now);
        self.lapse(now, budget);
        let Some((at, record, holds)) = self.find_hold(subject, change) else { return Ok(None) };
        let answer = record.answer().filter(|_| record.forget_at() > now);
        if answer.is_none() && !record.is_live() {
            return Ok(None);
        }
        if let HoldAction::Settle(amounts) = change.action {
            let plans = Rules::Plans(holds.plans_of(record));
            Request::of(change.key, plans, amounts).check_settle()?;
        }
        let plans = holds.plans_of(record).to_vec();
        let renewed = renewed(&plans, change.plans);
        let changed = match (answer, change.action) {
            (Some(_), HoldAction::Extend(_)) => None,
            (Some((state, decision)), _) => {
                self.look_one_more(subject, holds, record, &renewed, now, tell);
                Some((state, decision, 0))
            }
            (None, HoldAction::Extend(lease)) => {
                self.advance(now);
                if let Some(holds) = self.hold_table_mut() {
                    holds.extend(at, now + lease);
                }
                self.find_hold(subject, change).map(|(_, record, holds)| {
                    let decision = self.look_one_more(subject, holds, record, &renewed, now, tell);
                    (HoldState::Extended, decision, 0)
                })
            }
            (None, HoldAction::Settle(amounts)) => {
                let spent = Spent::Said(amounts);
                self.end_hold(at, subject, change, &renewed, HoldState::Settled, spent, now, budget, tell)
            }
            (None, HoldAction::Cancel) => {
                let spent = Spent::Nothing;
                self.end_hold(at, subject, change, &renewed, HoldState::Cancelled, spent, now, budget, tell)
            }
        };
        Ok(changed.map(|changed| (changed, plans)))
    }

    fn find_hold(
        &self,
        subject: &Subject<'_>,
        change: &HoldChange<'_>,
    ) -> Option<(u32, &HoldRecord, &HoldTable)> {
        let holds = self.hold_table()?;
        let at = holds.find(subject.hash, change.id)?;
        Some((at, holds.get(at)?, holds))
    }

    /// Returns the decision on one more of every unit under the plans of a hold, and tells what each rule says.
    fn look_one_more(
        &self,
        subject: &Subject<'_>,
        holds: &HoldTable,
        record: &HoldRecord,
        renewed: &[Arc<Plan>],
        now: Timestamp,
        tell: &mut impl FnMut(Decision),
    ) -> Decision {
        let holder = holds.holder_of(record);
        let decisions = rules(holds, record).map(|(plan, rule)| {
            let (plan, rule) = of_now(renewed, plan, rule);
            let decision = self.held_view(subject.hash, holder, plan, rule, now).look(Cost::ONE);
            tell(decision);
            (decision, !rule.is_shadow())
        });
        composite::join_binding(decisions)
    }

    /// Ends a live hold that has spent so much.
    #[expect(clippy::too_many_arguments, reason = "what is asked, and what it is asked of")]
    fn end_hold(
        &mut self,
        at: u32,
        subject: &Subject<'_>,
        change: &HoldChange<'_>,
        renewed: &[Arc<Plan>],
        state: HoldState,
        spent: Spent<'_>,
        now: Timestamp,
        budget: &Budget,
        tell: &mut impl FnMut(Decision),
    ) -> Option<Change> {
        self.latest = now;
        let (mut at, mut room) = (at, None);
        if self.owes_without_room(at, subject, spent) {
            room = self.room_to_end(at, subject, now, budget);
            // Who has looked for room may have moved it, found or not.
            at = self.find_hold(subject, change)?.0;
        }
        let expected = room.unwrap_or_else(|| self.held());
        let mut holds = self.take_holds()?;
        let (mut forgiven, mut made_way) = (0_u64, 0);
        let decision = holds.get(at).map(|record| {
            let holder = holds.holder_of(record);
            let decisions = rules(&holds, record).enumerate().map(|(position, (plan, rule))| {
                let estimate = record.estimate(position);
                let mut spent = spent.of(rule, estimate);
                let (plan, rule) = of_now(renewed, plan, rule);
                if room.is_none() && self.needs_room(subject, rule, Spending { estimate, spent }) {
                    // There is nowhere to write down what is owed.
                    forgiven = forgiven.saturating_add(spent - estimate);
                    spent = estimate;
                }
                let view = self.held_view(subject.hash, holder, plan, rule, now);
                let is_known = || self.knows_rate(subject.hash, rule);
                let spending = Spending { estimate, spent };
                let ending = self.ending(view, is_known, spending, record.charged_at(), now);
                if let Some(change) = ending.change {
                    made_way += usize::from(self.write_rate(subject.hash, rule, change, now));
                }
                forgiven = forgiven.saturating_add(ending.forgiven);
                tell(ending.decision);
                (ending.decision, !rule.is_shadow())
            });
            composite::join_binding(decisions)
        });
        if let Some(decision) = &decision {
            holds.end(at, state, decision);
        }
        self.return_holds(holds);
        budget.note_expired(made_way);
        self.settle(expected, budget);
        decision.map(|decision| (state, decision, forgiven))
    }

    /// Returns true if what is owed needs a state that is not there, or a log that may have to grow.
    fn needs_room(&self, subject: &Subject<'_>, rule: &Rule, Spending { estimate, spent }: Spending) -> bool {
        estimate != UNCHARGED
            && spent > estimate
            && match rule.quota().algorithm() {
                Algorithm::Concurrency => false,
                Algorithm::SlidingLog => true,
                _ => !self.knows_rate(subject.hash, rule),
            }
    }

    /// Returns true if what is owed needs room that is not there yet.
    fn owes_without_room(&self, at: u32, subject: &Subject<'_>, spent: Spent<'_>) -> bool {
        let Some((holds, record)) = self.hold_table().and_then(|holds| Some((holds, holds.get(at)?))) else {
            return false;
        };
        rules(holds, record).enumerate().any(|(position, (_, rule))| {
            let estimate = record.estimate(position);
            self.needs_room(subject, rule, Spending { estimate, spent: spent.of(rule, estimate) })
        })
    }

    /// Takes room for what is owed: within the bounds, and beyond that of states, because the key is known. Returns what the
    /// shard will hold at most; none if there is no room.
    fn room_to_end(
        &mut self,
        at: u32,
        subject: &Subject<'_>,
        now: Timestamp,
        budget: &Budget,
    ) -> Option<Footprint> {
        let holds = self.hold_table()?;
        let record = holds.get(at)?;
        let plans: Box<[Arc<Plan>]> = holds.plans_of(record).into();
        let request = Request::new(subject.request.key, Rules::Plans(&plans), Cost::ZERO);
        let subject = Subject { request, ..*subject };
        [Allowance::Within, Allowance::Known, Allowance::Beyond]
            .into_iter()
            .find_map(|room| self.make_room(&subject, room, now, budget).ok())
    }
}

fn rules<'a>(
    holds: &'a HoldTable,
    record: &HoldRecord,
) -> impl Iterator<Item = (&'a Plan, &'a Rule)> + Clone {
    plan_set::rules(holds.plans_of(record).iter().map(|plan| &**plan))
}

/// Returns those of these plans that are others now, as they are now.
fn renewed(plans: &[Arc<Plan>], known: &dyn Plans) -> Vec<Arc<Plan>> {
    let now = plans
        .iter()
        .filter_map(|plan| known.find(plan.name().as_str()).filter(|found| !Arc::ptr_eq(found, plan)));
    now.collect()
}

/// Returns a rule of a hold as it is now, if it still has the same state. Under its old quota, a state that a slower one has
/// written since would be cut off, and what a faster one has written would be given back many times over.
fn of_now<'a>(renewed: &'a [Arc<Plan>], plan: &'a Plan, rule: &'a Rule) -> (&'a Plan, &'a Rule) {
    let algorithm = |rule: &Rule| rule.quota().algorithm();
    let is_same = |other: &&Rule| other.id() == rule.id() && algorithm(other) == algorithm(rule);
    let now = renewed.iter().find(|other| other.name() == plan.name());
    let now = now.and_then(|plan| plan.rules().iter().find(is_same).map(|rule| (&**plan, rule)));
    now.unwrap_or((plan, rule))
}
