//! Several instances whose callers wait in line, and faults on the way of each. The runtime has `start_paused = true`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper::store::{Breaker, BreakerSettings, Guarded};
use ratekeeper::{FailureMode, Keeper, MemoryStore, Plan, Registry};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::simulated::far::{FarStore, REST, Way};
use test_support::cases::each_seed;
use test_support::random::Random;

const PLAN: &str = "40/s burst 10";
const INSTANCES: usize = 2;
const CALLERS: usize = 12;
/// How long the store may take.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Until when faults begin, and how long the longest lasts.
const FAULTS: u64 = 3_000;
const LONGEST: u64 = 1_000;
/// How long after the last fault callers may still feel it: a breaker rests, and its probe has its time.
const RECOVERY: Duration = Duration::from_millis(1_000);
/// How long nothing may fail after that.
const WELL: Duration = Duration::from_millis(1_000);
/// What a timer rounds up, in each place where one is waited for.
const ROUNDING: Duration = Duration::from_millis(5);

/// One caller's visit.
#[derive(Clone, Debug)]
struct Visit {
    instance: usize,
    came: Instant,
    left: Instant,
    cost: u64,
    patience: Duration,
    /// None if the caller left before there was an answer.
    outcome: Option<Result<bool, String>>,
}

struct Story {
    faults: Vec<(u64, usize, Way, u64)>,
    wrong: Option<String>,
}

/// One instance: its keeper, and its way to the store.
struct Instance {
    keeper: Keeper,
    far: FarStore,
}

impl Instance {
    fn new(shared: &Arc<MemoryStore>, seed: u64) -> Self {
        let far = FarStore::new(shared, seed);
        let settings = BreakerSettings::default().failures_in_a_row(3).rest(REST);
        let guarded = Guarded::new(far.store.clone(), Breaker::new(settings)).timeout(Some(TIMEOUT));
        far.watch(guarded.breaker());
        let plan = Plan::parse("plan", PLAN).unwrap().on_store_error(FailureMode::Error);
        let keeper = Keeper::new(guarded, Registry::new([plan]));
        Instance { keeper, far }
    }
}

/// Comes again and again.
async fn call(
    number: usize,
    instance: Rc<Instance>,
    mut chance: Random,
    until: Instant,
    visits: Rc<RefCell<Vec<Visit>>>,
) {
    while Instant::now() < until {
        sleep(Duration::from_micros(chance.below(200_000))).await;
        let cost = if chance.once_in(4) { 1 + chance.below(3) } else { 1 };
        let patience = Duration::from_millis(chance.below(3) * 200);
        let leaves = chance.once_in(5).then(|| Duration::from_micros(chance.below(150_000)));
        let came = Instant::now();
        let waits = instance.keeper.acquire("key", "plan", cost).within(patience);
        let answer = match leaves {
            Some(stays) => timeout(stays, waits).await.ok(),
            None => Some(waits.await),
        };
        let outcome = answer.map(|answer| match answer {
            Ok(ruling) => Ok(ruling.allowed),
            Err(error) => Err(error.to_string()),
        });
        let (left, instance) = (Instant::now(), number % INSTANCES);
        visits.borrow_mut().push(Visit { instance, came, left, cost, patience, outcome });
    }
}

fn play(seed: u64) -> Story {
    let mut chance = Random::new(seed);
    let ways = [Way::Slow, Way::LosesAnswers, Way::LosesQuestions, Way::Refuses];
    let faults: Vec<(u64, usize, Way, u64)> = (0..1 + chance.below(5))
        .map(|_| {
            let way = ways[chance.index(ways.len())];
            (chance.below(FAULTS), chance.index(INSTANCES), way, 20 + chance.below(LONGEST - 20))
        })
        .collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let wrong = LocalSet::new().block_on(&runtime, tell(seed, &faults)).err();
    Story { faults, wrong }
}

async fn tell(seed: u64, faults: &[(u64, usize, Way, u64)]) -> Result<(), String> {
    let shared = Arc::new(MemoryStore::default());
    let instances: Vec<Rc<Instance>> =
        (0..INSTANCES).map(|at| Rc::new(Instance::new(&shared, seed << 8 | at as u64))).collect();
    let (began, visits) = (Instant::now(), Rc::new(RefCell::new(Vec::new())));
    let calm = began + Duration::from_millis(FAULTS + LONGEST) + RECOVERY;
    let mut tasks = Vec::new();
    for number in 0..CALLERS {
        let chance = Random::new(seed << 16 | number as u64);
        let instance = Rc::clone(&instances[number % INSTANCES]);
        tasks.push(spawn_local(call(number, instance, chance, calm + WELL, Rc::clone(&visits))));
    }
    for (at, instance, way, lasts) in faults.iter().copied() {
        let instance = Rc::clone(&instances[instance]);
        tasks.push(spawn_local(async move {
            sleep(Duration::from_millis(at)).await;
            instance.far.set(way);
            sleep(Duration::from_millis(lasts)).await;
            instance.far.set(Way::Open);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // What is given back on the way is there after this.
    sleep(Duration::from_secs(1)).await;
    let visits = visits.take();
    for instance in &instances {
        if let Some(wrong) = instance.far.wrong() {
            return Err(wrong);
        }
        let waiting = instance.keeper.queue_depth("key", "plan");
        if waiting > 0 {
            return Err(format!("{waiting} wait for ever"));
        }
    }
    let kept: u64 = instances.iter().map(|instance| instance.far.kept()).sum();
    check(&visits, calm, kept, faults)
}

fn check(
    visits: &[Visit],
    calm: Instant,
    kept: u64,
    faults: &[(u64, usize, Way, u64)],
) -> Result<(), String> {
    let is_allowed = |visit: &&Visit| matches!(visit.outcome, Some(Ok(true)));
    let told: u64 = visits.iter().filter(is_allowed).map(|visit| visit.cost).sum();
    if told > kept {
        return Err(format!("{told} were told that they may, and the store has {kept} of them"));
    }
    // Where no answer is lost or late, everything that was taken was told or given back.
    if faults.iter().all(|(_, _, way, _)| *way == Way::Refuses) && told != kept {
        return Err(format!("{told} were told that they may, and {kept} were taken"));
    }
    for visit in visits {
        // A question that is under way when the time is up is waited for, and so is one for what those ahead leave.
        if visit.left > visit.came + visit.patience + 2 * TIMEOUT + ROUNDING {
            return Err(format!("too long: {visit:?}"));
        }
        if visit.came >= calm && matches!(visit.outcome, Some(Err(_))) {
            return Err(format!("long after the last fault: {visit:?}"));
        }
    }
    for instance in 0..INSTANCES {
        // Of those who want the same, who came first is served first, once the store has answered him that he has to wait.
        let mut served: Vec<&Visit> = visits
            .iter()
            .filter(is_allowed)
            .filter(|visit| visit.instance == instance && visit.cost == 1)
            .collect();
        served.sort_by_key(|visit| visit.came);
        for (at, first) in served.iter().enumerate() {
            let later =
                served[at + 1..].iter().skip_while(|later| later.came < first.came + TIMEOUT + ROUNDING);
            if let Some(overtakes) = later
                .take_while(|later| later.came < first.left)
                .find(|later| later.left + ROUNDING < first.left)
            {
                return Err(format!("{overtakes:?} overtakes {first:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn those_who_wait_while_the_store_fails() {
    let run = |seed: u64| {
        let Story { faults, wrong } = play(seed);
        assert_eq!(wrong, None, "seed {seed}: {faults:?}");
    };
    each_seed(240, run);
}
