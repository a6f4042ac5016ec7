//! Concurrent histories, and the search for an order that explains them.
//!
//! A history is linearisable if there is an order of its calls, in which no call comes before one that had returned
//! when it began, such that a store that is asked one after another gives just these answers.

use std::collections::HashSet;
use std::fmt::Debug;

/// One call: what was asked, what was answered, and when, by a counter that all threads share.
#[derive(Clone, Debug)]
pub(crate) struct Call<Q, A> {
    pub(crate) question: Q,
    pub(crate) answer: A,
    /// Taken before the call.
    pub(crate) began: u64,
    /// Taken after it.
    pub(crate) returned: u64,
}

/// What a store that is asked one after another answers.
pub(crate) trait Sequential: Clone + Debug {
    type Question: Debug;
    type Answer: Debug + PartialEq;

    /// Answers. Where several answers would be right, `observed` may choose: it is what the store itself answered.
    fn ask(&mut self, question: &Self::Question, observed: &Self::Answer) -> Self::Answer;

    /// Returns true if whoever is answered this has changed something, whenever that was.
    fn changes(question: &Self::Question, answer: &Self::Answer) -> bool;
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is such an order.
    Explained,
    /// There is none.
    Impossible,
    /// Too many orders to try.
    Open,
}

/// Steps that are tried before a search gives up. Answers tell so much of the state that few are ever needed.
const MOST_STEPS: u32 = 1_000_000;

/// After so many steps it pays to remember what was tried.
const FEW_STEPS: u32 = 2_000;

/// Searches for an order that explains the history, depth first. At most 64 calls.
pub(crate) fn explain<S: Sequential>(store: &S, calls: &[Call<S::Question, S::Answer>]) -> Verdict {
    assert!(calls.len() <= 64);
    let mut search = Search { calls, steps: 0, tried: HashSet::new() };
    match search.explains(store, 0) {
        true => Verdict::Explained,
        false if search.steps >= MOST_STEPS => Verdict::Open,
        false => Verdict::Impossible,
    }
}

struct Search<'a, S: Sequential> {
    calls: &'a [Call<S::Question, S::Answer>],
    steps: u32,
    /// The calls that were placed and the state they left, from where nothing explains the others. Different orders of the
    /// same calls often leave the same.
    tried: HashSet<(u64, String)>,
}

impl<S: Sequential> Search<'_, S> {
    /// `done` has one bit for every call that is placed already.
    fn explains(&mut self, store: &S, done: u64) -> bool {
        let calls = self.calls;
        let open = || calls.iter().enumerate().filter(|(index, _)| done & 1 << index == 0);
        // Whatever began after this cannot be next: something else had returned before.
        let Some(first_return) = open().map(|(_, call)| call.returned).min() else { return true };
        let here = (self.steps > FEW_STEPS).then(|| (done, format!("{store:?}")));
        if here.as_ref().is_some_and(|here| self.tried.contains(here)) {
            return false;
        }
        for (index, call) in open().filter(|(_, call)| call.began < first_return) {
            self.steps += 1;
            if self.steps >= MOST_STEPS {
                return false;
            }
            let mut next = store.clone();
            if next.ask(&call.question, &call.answer) != call.answer {
                continue;
            }
            if self.explains(&next, done | 1 << index) {
                return true;
            }
            // Whoever changes nothing may as well come now as later: if this explains nothing, no other order does.
            if !S::changes(&call.question, &call.answer) {
                break;
            }
        }
        self.tried.extend(here);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that can be raised: answers what it was.
    #[derive(Clone, Debug)]
    struct Counter(u64);

    impl Sequential for Counter {
        type Question = u64;
        type Answer = u64;

        fn ask(&mut self, question: &u64, _: &u64) -> u64 {
            self.0 += question;
            self.0 - question
        }

        fn changes(question: &u64, _: &u64) -> bool {
            *question != 0
        }
    }

    fn call(question: u64, answer: u64, began: u64, returned: u64) -> Call<u64, u64> {
        Call { question, answer, began, returned }
    }

    #[test]
    fn overlapping_calls_may_be_explained_in_any_order() {
        let calls = [call(1, 2, 0, 3), call(2, 0, 1, 2)];
        assert_eq!(explain(&Counter(0), &calls), Verdict::Explained);
    }

    #[test]
    fn calls_that_follow_each_other_may_not() {
        let calls = [call(1, 2, 0, 1), call(2, 0, 2, 3)];
        assert_eq!(explain(&Counter(0), &calls), Verdict::Impossible);
    }

    #[test]
    fn a_lost_update_is_found() {
        let calls = [call(1, 0, 0, 3), call(1, 0, 1, 2), call(0, 1, 4, 5)];
        assert_eq!(explain(&Counter(0), &calls), Verdict::Impossible);
    }
}
