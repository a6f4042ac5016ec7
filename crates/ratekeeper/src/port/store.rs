//! Where state lives.

use std::fmt::Debug;
use std::sync::Arc;

use super::answer::Answer;
use super::charge::{Charge, Judgment, Whole};
use super::grant::Grant;
use super::hold::{HoldChange, HoldOutcome, HoldRequest};
use super::many::acquire_each;
use super::request::Request;
use super::standing::Standing;
use crate::{Charged, Cost, Decision, StoreError, StoreErrorKind};

/// What a store says that has no debts.
const NO_DEBTS: &str = "this store has no debts: use the one in memory, on Redis or on PostgreSQL";

/// What a store says that charges one key at a time.
const ONE_KEY: &str =
    "this store charges one key at a time: use the one in memory, on Redis or on PostgreSQL";

/// What a store says that has no holds.
const NO_HOLDS: &str = "this store has no holds: use the one in memory, on Redis or on PostgreSQL";

/// Where state lives. Decides atomically: between reading and writing the states of one request, nobody else does.
///
/// The store has the clock: in memory that of the process, over Redis the server's.
///
/// An implementation proves itself with the suite in `testkit::conformance`. Beyond what that can test it promises that
/// an [`Answer`] which is not ready has not begun: dropped before it is polled, it has asked nobody. The keeper relies on
/// it to ask again by a future that owns its request.
pub trait Store: Send + Sync + Debug {
    /// Takes the cost from every rule, or from none. The decision says [when](Decision::charged_at) it was taken.
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision>;

    /// Takes as much as every rule allows, at least the request's cost and at most `most`, or nothing. Returns how much that
    /// is, and what comes after it.
    ///
    /// If not even the cost passes, the decision is that on the cost: its `retry_after` says when that much can be had. A
    /// `most` below the cost counts as the cost. What was granted is given back by a [refund](Store::refund), whole or in
    /// parts, as of the instant of the [grant](Grant::at).
    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant>;

    /// Returns what [`acquire`](Store::acquire) would decide. Writes nothing.
    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision>;

    /// Takes as [`acquire`](Store::acquire) does, and tells what each rule says by itself, those in shadow, too. A store that
    /// knows no better tells the decision alone.
    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.acquire(request).map(|decision| decision.map(Standing::of))
    }

    /// Tells as [`peek`](Store::peek) does, of each rule. Writes nothing.
    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        self.peek(request).map(|decision| decision.map(Standing::of))
    }

    /// Charges every rule without asking whether it passes: for what has happened already. Tells where the key stands
    /// then, as a [peek](Store::peek_each) for one more of every unit would.
    ///
    /// A debt is bounded, so that nobody is locked out for ever: GCRA and both buckets go one capacity below empty, at most
    /// two refills ahead, and what exceeds that is [forgiven](Standing::forgiven); a window's count may pass its limit, and
    /// its end forgives it; a log remembers it as one entry.
    ///
    /// # Errors
    ///
    /// A store that has no debts says so: [`StoreErrorKind::Unsupported`].
    fn debit<'a>(&'a self, _request: Request<'a>) -> Answer<'a, Standing> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, NO_DEBTS)))
    }

    /// Judges charges of several keys together, at one instant, and tells of each where its key stands then
    /// (docs/semantics.md §12).
    ///
    /// They are judged in their order, each on top of those before it, as if the whole passed. Then the whole is refused if
    /// a charge is over and has the [force](super::ChargeForce) to refuse it, unless it is [known](Whole) before. What is
    /// [counted](super::ChargeAction::Count) is charged in any case; of what is [ignored](super::ChargeAction::Ignore) when it
    /// does not pass, nothing is charged if the whole is refused: not what passes by itself either. What is told is how each
    /// key stands after its charge, with what stays of those before.
    ///
    /// # Errors
    ///
    /// A store that charges one key at a time says so: [`StoreErrorKind::Unsupported`].
    fn charge<'a>(&'a self, _charges: &'a [Charge<'a>], _whole: Whole) -> Answer<'a, Judgment> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, ONE_KEY)))
    }

    /// Takes the estimate from every rate rule and a place in every concurrency rule, or nothing at all. What is held must be
    /// [ended](Store::change_hold); if nobody does, the places are free again when the lease runs out.
    ///
    /// What a key's live holds have estimated is bounded for each rate rule: by the plan's own rule for that unit in flight,
    /// or else by the rule's burst.
    ///
    /// # Errors
    ///
    /// A store that has no holds says so: [`StoreErrorKind::Unsupported`].
    fn hold<'a>(&'a self, _hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, NO_HOLDS)))
    }

    /// Settles, cancels or prolongs a hold. One that has ended stays as it is: it answers the same again, within its lease
    /// and a minute after, and is gone then.
    ///
    /// # Errors
    ///
    /// A store that has no holds says so: [`StoreErrorKind::Unsupported`].
    fn change_hold<'a>(&'a self, _change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, NO_HOLDS)))
    }

    /// Gives back to every rule what is left of a cost that was `charged` then, never above the rule's capacity. The
    /// decision says what remains.
    ///
    /// What was charged has refilled meanwhile, and others may have taken it: a late refund must not mint. With `age`
    /// the time since the charge, GCRA and both buckets get back `cost − rate · age`; a fixed window all of it in the
    /// same window and nothing later; a sliding counter takes it out of the slot in which it was charged, while that
    /// still counts; a log loses that very entry. What was charged before a [reset](Store::reset) of the key gets
    /// nothing back.
    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision>;

    /// Forgets the key under these rules, and returns how many states were forgotten.
    ///
    /// A [quota of the request's own](crate::Rules::Quota) stands for all such quotas of the key: every state that any of them
    /// left is forgotten, whatever its algorithm and period.
    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64>;

    /// Forgets every state of every key that starts with these bytes, of plans and of requests' own quotas, and returns how
    /// many states were forgotten. No bytes are the start of every key. For an administrator: it looks at all keys, and
    /// what is asked meanwhile may fall before it or after it.
    ///
    /// A store may forget the [resets](Store::reset) of these keys as well, so that all their memory is free, and note
    /// none: then it cannot tell a refund of what was charged before from one of what was charged since. Such a refund
    /// still gives back what is left of its charge and no more, and a key of which nothing was taken since has nothing to
    /// get back. [`MemoryStore`](crate::MemoryStore) remembers, and gives nothing back.
    ///
    /// # Errors
    ///
    /// A store that does not know its keys, or cannot list them, says so: [`StoreErrorKind::Unsupported`].
    fn forget<'a>(&'a self, _prefix: &'a [u8]) -> Answer<'a, u64> {
        let message = "this store cannot list its keys: reset them one by one";
        Answer::ready(Err(StoreError::new(StoreErrorKind::Unsupported, message)))
    }

    /// Takes many costs, those of one key in order: each request gets its own answer, which is appended to `into` in the
    /// order of the requests. One that fails does not fail the others, which may live on another server.
    ///
    /// Unless a store knows better, it is [asked](Store::acquire) for different keys at once, 64 of them at most, and for
    /// the requests of one key one after another: questions that are under way together may be decided in any order.
    ///
    /// # Errors
    ///
    /// An error of the whole says that the store failed all that have no answer yet; what was appended stands.
    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        Answer::later(acquire_each(requests, |request| self.acquire(request), into))
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn acquire<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        (**self).acquire(request)
    }

    fn acquire_up_to<'a>(&'a self, request: Request<'a>, most: Cost) -> Answer<'a, Grant> {
        (**self).acquire_up_to(request, most)
    }

    fn peek<'a>(&'a self, request: Request<'a>) -> Answer<'a, Decision> {
        (**self).peek(request)
    }

    fn acquire_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        (**self).acquire_each(request)
    }

    fn peek_each<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        (**self).peek_each(request)
    }

    fn debit<'a>(&'a self, request: Request<'a>) -> Answer<'a, Standing> {
        (**self).debit(request)
    }

    fn charge<'a>(&'a self, charges: &'a [Charge<'a>], whole: Whole) -> Answer<'a, Judgment> {
        (**self).charge(charges, whole)
    }

    fn hold<'a>(&'a self, hold: HoldRequest<'a>) -> Answer<'a, Standing> {
        (**self).hold(hold)
    }

    fn change_hold<'a>(&'a self, change: HoldChange<'a>) -> Answer<'a, HoldOutcome> {
        (**self).change_hold(change)
    }

    fn refund<'a>(&'a self, request: Request<'a>, charged: Charged) -> Answer<'a, Decision> {
        (**self).refund(request, charged)
    }

    fn reset<'a>(&'a self, request: Request<'a>) -> Answer<'a, u64> {
        (**self).reset(request)
    }

    fn forget<'a>(&'a self, prefix: &'a [u8]) -> Answer<'a, u64> {
        (**self).forget(prefix)
    }

    fn acquire_many<'a>(
        &'a self,
        requests: &'a [Request<'a>],
        into: &'a mut Vec<Result<Decision, StoreError>>,
    ) -> Answer<'a, ()> {
        (**self).acquire_many(requests, into)
    }
}
