//! The machine against a model that remembers everything and computes nothing ahead.

use proptest::prelude::*;

use super::*;

const TENTH: u64 = 1_000_000_000;

fn settings() -> BreakerSettings {
    BreakerSettings::default().failures_in_a_row(3).failed_percent(50, 6).rest(Nanos::from_millis(700))
}

/// What happened since the last change, in full.
#[derive(Default)]
struct Model {
    state: Option<(BreakerState, Timestamp)>,
    outcomes: Vec<(i64, bool)>,
    probe: Option<(usize, Timestamp)>,
    changes: u64,
}

impl Model {
    fn state(&self) -> BreakerState {
        self.state.map_or(BreakerState::Closed, |(state, _)| state)
    }

    fn become_(&mut self, state: BreakerState, now: Timestamp) {
        *self = Model { state: Some((state, now)), changes: self.changes + 1, ..Model::default() };
    }

    fn admits(&mut self, question: usize, now: Timestamp) -> bool {
        let rest = settings().rest;
        match self.state() {
            BreakerState::Closed => return true,
            BreakerState::Open => {
                if self.state.is_some_and(|(_, since)| now < since + rest) {
                    return false;
                }
                self.become_(BreakerState::HalfOpen, now);
            }
            BreakerState::HalfOpen => {
                if self.probe.is_some_and(|(_, since)| now < since + rest) {
                    return false;
                }
            }
        }
        self.probe = Some((question, now));
        true
    }

    fn settles(&mut self, question: usize, verdict: CallVerdict, now: Timestamp) {
        match (self.state(), verdict) {
            (BreakerState::Closed, CallVerdict::Unknown) => {}
            (BreakerState::Closed, verdict) => {
                let part = now.as_nanos().div_euclid(TENTH.cast_signed());
                self.outcomes.push((part, verdict == CallVerdict::Failed));
                let in_a_row = self.outcomes.iter().rev().take_while(|(_, failed)| *failed).count();
                let recent: Vec<bool> = self
                    .outcomes
                    .iter()
                    .filter(|(at, _)| part - at < 10)
                    .map(|(_, failed)| *failed)
                    .collect();
                let failed = recent.iter().filter(|failed| **failed).count();
                let is_bad = recent.len() >= 6 && failed * 2 >= recent.len();
                if verdict == CallVerdict::Failed && (in_a_row >= 3 || is_bad) {
                    self.become_(BreakerState::Open, now);
                }
            }
            (BreakerState::HalfOpen, CallVerdict::Answered) => self.become_(BreakerState::Closed, now),
            (BreakerState::HalfOpen, CallVerdict::Failed) => self.become_(BreakerState::Open, now),
            (BreakerState::HalfOpen, CallVerdict::Unknown) => {
                if self.probe.is_some_and(|(probe, _)| probe == question) {
                    self.probe = None;
                }
            }
            (BreakerState::Open, _) => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask,
    Settle(usize, CallVerdict),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let verdict = prop_oneof![2 => Just(CallVerdict::Answered), 4 => Just(CallVerdict::Failed), 1 => Just(CallVerdict::Unknown)];
    let step = prop_oneof![
        5 => Just(Step::Ask),
        5 => (any::<usize>(), verdict).prop_map(|(which, verdict)| Step::Settle(which, verdict)),
        2 => (0..12_000_000_000u64).prop_map(Step::Wait),
        2 => (0..900_000_000u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any order of questions, outcomes and waiting: the machine and the model admit the same questions, and change
    /// at the same moments.
    #[test]
    fn the_machine_does_what_the_model_does(steps in steps()) {
        let (mut machine, mut model) = (BreakerMachine::new(settings()), Model::default());
        let mut now = Timestamp::from_secs(1_761_884_055);
        let mut out: Vec<(usize, Ticket, u64)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(nanos) => now = now + Nanos::from_nanos(nanos),
                Step::Ask => {
                    let before = machine.changes();
                    let (admitted, change) = machine.admit(now);
                    prop_assert_eq!(admitted.is_ok(), model.admits(number, now));
                    prop_assert_eq!(change.is_some(), machine.changes() != before);
                    if let Err(left) = admitted {
                        prop_assert!(!left.is_zero() && left <= settings().rest);
                    }
                    out.extend(admitted.ok().map(|ticket| (number, ticket, model.changes)));
                }
                Step::Settle(which, verdict) if !out.is_empty() => {
                    let (question, ticket, era) = out.swap_remove(which % out.len());
                    let before = machine.changes();
                    let change = machine.settle(ticket, verdict, now);
                    prop_assert_eq!(change.is_some(), machine.changes() != before);
                    // Whoever asked before the last change says nothing about what is now.
                    if era == model.changes {
                        model.settles(question, verdict, now);
                    }
                }
                Step::Settle(..) => {}
            }
            prop_assert_eq!((machine.state(), machine.changes()), (model.state(), model.changes));
        }
    }
}

#[test]
fn a_clock_that_stepped_back_locks_nobody_out() {
    let mut machine = BreakerMachine::new(settings().failures_in_a_row(1));
    let late = Timestamp::from_secs(2_000_000_000);
    let ticket = machine.admit(late).0.unwrap();
    let opened = Transition { from: BreakerState::Closed, to: BreakerState::Open };
    assert_eq!(machine.settle(ticket, CallVerdict::Failed, late), Some(opened));
    let early = Timestamp::from_secs(1_000_000_000);
    assert_eq!(machine.admit(early).0, Err(Nanos::from_millis(700)));
    assert!(machine.admit(early + Nanos::from_millis(700)).0.is_ok());
}

#[test]
fn a_probe_that_is_held_back_is_replaced_after_a_rest() {
    let mut machine = BreakerMachine::new(settings().failures_in_a_row(1));
    let start = Timestamp::from_secs(1_000);
    let ticket = machine.admit(start).0.unwrap();
    machine.settle(ticket, CallVerdict::Failed, start);
    let rested = start + Nanos::from_millis(700);
    let held = machine.admit(rested).0.unwrap();
    assert!(machine.admit(rested + Nanos::from_millis(699)).0.is_err());
    let second = machine.admit(rested + Nanos::from_millis(700)).0.unwrap();
    assert_eq!(machine.settle(held, CallVerdict::Unknown, rested), None);
    assert!(machine.admit(rested + Nanos::from_millis(701)).0.is_err(), "the second is still out");
    assert!(machine.settle(second, CallVerdict::Answered, rested).is_some());
    assert_eq!(machine.state(), BreakerState::Closed);
}

#[test]
fn extreme_instants_and_settings_do_not_wrap() {
    let settings = settings().window(Nanos::MAX).rest(Nanos::MAX).failures_in_a_row(u32::MAX);
    for settings in [settings, settings.window(Nanos::ZERO).rest(Nanos::ZERO)] {
        let mut machine = BreakerMachine::new(settings);
        for now in [Timestamp::MIN, Timestamp::MAX, Timestamp::EPOCH, Timestamp::MIN] {
            for verdict in
                [CallVerdict::Failed, CallVerdict::Failed, CallVerdict::Failed, CallVerdict::Answered]
            {
                if let Ok(ticket) = machine.admit(now).0 {
                    machine.settle(ticket, verdict, now);
                }
            }
        }
    }
}
