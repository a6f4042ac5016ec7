//! Charges of one key are judged each on top of those before it, as if the whole passed. Whether it does is known only then, so
//! they are made on copies of the states first. Seldom: most charges are of different keys, and each is judged where it lies.

use super::charging::{ChargeTurn, act};
use super::shard::Shard;
use super::tag::Tag;
use crate::algorithm::composite::Passing;
use crate::algorithm::{AnyView, State, Wait};
use crate::{Quota, Timestamp};

/// Copies of the states of keys that are charged more than once.
#[derive(Debug, Default)]
pub(super) struct Rehearsal {
    states: Vec<(Tag, Option<State>)>,
}

impl Rehearsal {
    /// Makes a charge on the copies. Returns which rules it passes, and whether each is over.
    pub(super) fn charge(
        &mut self,
        shard: &Shard,
        turn: &ChargeTurn<'_>,
        now: Timestamp,
    ) -> (Passing, Vec<bool>) {
        let (subject, tenancy) = (turn.subject, turn.subject.tenancy());
        let mut over = Vec::with_capacity(subject.request.rules.len());
        for (tag, share) in subject.shares() {
            let state = self.state(shard, tag, share.quota);
            let view = AnyView::at(share.quota, state.as_ref(), now, tenancy);
            // A tag is that of one algorithm, and no other's state is found by it.
            over.push(view.is_ok_and(|view| turn.wait(&view, &share) != Wait::Ready));
        }
        let passing =
            Passing::of(subject.shares().zip(&over).map(|((_, share), is_over)| (share.shadow_of, !is_over)));
        for (tag, share) in subject.shares() {
            let state = self.state(shard, tag, share.quota);
            let is_known = state.is_some();
            let Ok(mut view) = AnyView::at(share.quota, state.as_ref(), now, tenancy) else { continue };
            let charges = passing.charges(share.shadow_of);
            if act(turn.action, &mut view, share.cost, charges, || is_known, now) {
                // Edited, because copying a log would cost as much as it is long.
                let change = view.write();
                change.apply(state);
            }
        }
        (passing, over)
    }

    fn state(&mut self, shard: &Shard, tag: Tag, quota: &Quota) -> &mut Option<State> {
        let known = self.states.iter().position(|(known, _)| *known == tag);
        let position = known.unwrap_or_else(|| {
            self.states.push((tag, shard.state(tag, quota)));
            self.states.len() - 1
        });
        &mut self.states[position].1
    }
}
