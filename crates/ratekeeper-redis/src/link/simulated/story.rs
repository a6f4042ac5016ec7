//! One schedule: servers, faults, callers, and what must be true at the end.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use test_support::cases::each_seed;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};

use super::callers::{Callers, Question, check};
use super::chance::{Chance, ORDINARY, schedules};
use super::network::{Machines, Network};

/// How long faults begin, in milliseconds; each ends some time later.
const FAULTS: u64 = 3_000;
/// The longest that a fault and the news of it take.
const LONGEST: Duration = Duration::from_secs(3);
/// How long after the last fault has ended callers may still feel it: a breaker rests for a second, and its probe may find
/// that it has to ask elsewhere.
const RECOVERY: Duration = Duration::from_secs(3);
/// How long nothing may fail after that.
const WELL: Duration = Duration::from_secs(1);

/// Servers, and what can happen to them.
pub(super) trait Suffering: Sized + 'static {
    type Fault: Copy + Debug;

    /// The most attempts to connect to one host in a second.
    const MOST_ATTEMPTS: u64;

    fn new() -> Self;

    fn machines(&self) -> Arc<dyn Machines>;

    fn hosts() -> Vec<String>;

    fn url() -> String;

    /// How often a question was executed.
    fn executed(&self, number: u64) -> u32;

    fn draw(chance: &mut Chance) -> Self::Fault;

    /// Has a fault happen, from its beginning to its end.
    fn suffer(&self, fault: Self::Fault, network: &Network, chance: Chance) -> impl Future<Output = ()>;
}

/// What came of a schedule.
pub(super) struct Story<F> {
    pub(super) faults: Vec<(Duration, F)>,
    pub(super) questions: Vec<Question>,
    pub(super) wrong: Option<String>,
}

/// The keys that are asked for.
pub(super) fn keys() -> Vec<String> {
    (0..12).map(|key| format!("limit:{{{key}}}")).collect()
}

/// Draws the faults of a schedule, and when each begins.
fn faults<W: Suffering>(chance: &mut Chance) -> Vec<(Duration, W::Fault)> {
    let count = chance.within(1..8);
    let mut faults: Vec<_> = (0..count).map(|_| (chance.millis(0..FAULTS), W::draw(chance))).collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Runs many schedules, and panics at the first in which something is wrong. An ordinary run has each of so many kinds of
/// fault three times at least.
pub(super) fn play_all<W: Suffering>(count: u32, kinds: usize) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..u64::from(ORDINARY) {
        for (_, fault) in faults::<W>(&mut Chance::new(seed)) {
            let shown = format!("{fault:?}");
            let kind = shown.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
            *times.entry(kind.to_owned()).or_default() += 1;
        }
    }
    assert!(times.len() == kinds && times.values().all(|times| *times >= 3), "{times:?}");
    schedules(count, |seed| {
        let Story { faults, wrong, .. } = play::<W>(seed, 4);
        assert_eq!(wrong, None, "seed {seed}: {faults:#?}");
    });
}

/// Runs one schedule with so many callers.
pub(super) fn play<W: Suffering>(seed: u64, callers: u64) -> Story<W::Fault> {
    let faults = faults::<W>(&mut Chance::new(seed));
    in_virtual_time(async {
        let world = Rc::new(W::new());
        let (network, _unplug) = Network::build(world.machines(), &W::hosts(), seed);
        let (asked, began) = (Callers::new(&W::url(), keys()), Instant::now());
        let ended = Duration::from_millis(FAULTS) + LONGEST;
        let asking = asked.start(callers, seed, ended + RECOVERY + WELL);
        let suffered: Vec<_> = faults
            .iter()
            .enumerate()
            .map(|(number, (at, fault))| {
                let (world, network) = (Rc::clone(&world), Arc::clone(&network));
                let (chance, at, fault) = (Chance::new(seed ^ (number as u64 + 1) << 50), *at, *fault);
                spawn_local(async move {
                    sleep_until(began + at).await;
                    world.suffer(fault, &network, chance).await;
                    assert!(began.elapsed() < ended, "{fault:?} takes too long");
                })
            })
            .collect();
        for task in asking.into_iter().chain(suffered) {
            task.await.unwrap();
        }
        let questions = asked.take_questions();
        let is_late = |question: &&Question| {
            question.asked >= ended + RECOVERY && matches!(question.outcome, Some(Err(_)))
        };
        let late = questions.iter().find(is_late);
        let attempts = network.most_attempts();
        let wrong = check(&questions, |number| world.executed(number)).err();
        let wrong = wrong.or_else(|| late.map(|late| format!("long after the last fault: {late:?}")));
        let storm =
            (attempts > W::MOST_ATTEMPTS).then(|| format!("{attempts} attempts to connect in a second"));
        Story { faults, questions, wrong: wrong.or(storm) }
    })
}

/// Runs a schedule in a runtime whose time is simulated, and ends what is left of it.
pub(super) fn in_virtual_time<T>(schedule: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, schedule)
}

/// With one caller a seed decides everything. Of several that wait for the same thing tokio chooses who goes first.
pub(super) fn is_told_twice<W: Suffering>() {
    each_seed(50, |seed| {
        let [one, other] = [play::<W>(seed, 1), play::<W>(seed, 1)].map(|story| story.questions);
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(format!("{one:?}"), format!("{other:?}"), "seed {seed}");
        }
        assert_eq!(one.len(), other.len(), "seed {seed}");
    });
}
