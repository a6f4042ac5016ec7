//! One turn: servers on one store, good clients, the faults of the schedule, and a look at everything once a second.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::rustls::ClientConfig;

use crate::soak::book::{Book, Pages, Totals};
use crate::soak::certificates::{Authority, shown};
use crate::soak::checker::{Checker, Usage, Violation};
use crate::soak::disk::Disk;
use crate::soak::inflict::Saboteur;
use crate::soak::instance::{Instance, Launch};
use crate::soak::judged::{DONE, JudgedCounts, SILENCE, STATS, TOO_SELDOM};
use crate::soak::law::Law;
use crate::soak::load::{GoodClient, Pending, Wire};
use crate::soak::plans::{self, HELD_PLACES, Version};
use crate::soak::scene::{NodeProgram, Scene};
use crate::soak::schedule::{Fault, Lane, Planned, StoreKind, rest, schedule};
use crate::soak::seen::{Reading, Sample, Seen, Sums};
use crate::soak::timeline::{Nanos, SECOND, seconds};
use crate::soak::wires::Http;
use test_support::random::Random;
use test_support::wait::PATIENCE;

/// What a turn is made of.
#[derive(Clone, Debug)]
pub(crate) struct TurnSettings {
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) store: StoreKind,
    /// Whether its nodes are of Valkey, if there is one.
    pub(crate) is_valkey: bool,
    pub(crate) length: Duration,
    /// Whether there are bounds by the clock on the wall. Not in the tests: others use the machine as well.
    pub(crate) is_timed: bool,
    /// The server's program.
    pub(crate) binary: PathBuf,
    /// Whether that can be encrypted.
    pub(crate) has_tls: bool,
    /// The library that fakes clocks.
    pub(crate) faketime: Option<PathBuf>,
    /// Where logs and files go.
    pub(crate) folder: PathBuf,
    /// What must hold of each shared key.
    pub(crate) laws: fn(StoreKind) -> Vec<Law>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct TurnReport {
    pub(crate) store: StoreKind,
    pub(crate) lasted: Duration,
    pub(crate) totals: Totals,
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) longest: Duration,
    pub(crate) p99: Duration,
    pub(crate) usages: BTreeMap<String, Usage>,
    pub(crate) judged: JudgedCounts,
    /// How long the machine stood still in all.
    pub(crate) stalled: Duration,
}

/// What went wrong, and all that is needed to find out why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) second: f64,
    pub(crate) violations: Vec<Violation>,
    pub(crate) history: Vec<String>,
}

/// The machine has stood still if a task that is due every few milliseconds is so late.
const STALL: Duration = Duration::from_millis(150);
const BEAT: Duration = Duration::from_millis(20);

/// After the load has stopped, until everything has been answered.
const SETTLE: Duration = Duration::from_secs(5);

/// After which a good client gives up, where replies are bounded.
const CLIENT_PATIENCE: Duration = Duration::from_secs(3);

/// How soon a file that was exchanged is in force, by the signal or by the second look, where that is bounded.
const RELOADED_WITHIN: Duration = Duration::from_secs(5);

/// How much longer than planned a turn may take until its faults are over, everybody is served again and enough was judged.
const MOST_OVERTIME: Duration = Duration::from_secs(60);

/// How old `/v1/stats` may be: it is made once a second, and the machine is busy.
const STATS_AGE: Duration = Duration::from_secs(3);

/// Everything that the threads of a turn share.
pub(crate) struct Stage {
    pub(crate) store: StoreKind,
    is_timed: bool,
    /// How many lanes have not come to the end of their schedule.
    lanes: AtomicUsize,
    pub(crate) book: Arc<Book>,
    pub(crate) instances: Vec<Mutex<Instance>>,
    pub(crate) authority: Option<(Authority, Arc<ClientConfig>)>,
    pub(crate) plans: PathBuf,
    pub(crate) handle: Handle,
    pub(crate) stop: Arc<AtomicBool>,
    /// What no checker saw because it cannot be measured: a file that was not read, a certificate that was not used.
    pub(crate) broken: Mutex<Vec<Violation>>,
    /// Where each server is asked what it has counted, and by which certificates.
    scraped: Vec<(SocketAddr, Option<Arc<ClientConfig>>)>,
    sums: Mutex<Vec<Option<Sums>>>,
}

impl Stage {
    /// How soon a file that was exchanged must be in force.
    pub(crate) fn reloaded_within(&self) -> Duration {
        if self.is_timed { RELOADED_WITHIN } else { PATIENCE }
    }
}

/// Runs a turn.
///
/// # Errors
///
/// What cannot be, as soon as it is seen.
pub(crate) fn run(settings: &TurnSettings) -> Result<TurnReport, Box<Failure>> {
    let TurnSettings { seed, number, store, length, folder, .. } = settings;
    fs::create_dir_all(folder).unwrap();
    let program = NodeProgram::choose(settings.is_valkey, settings.faketime.as_deref(), folder);
    let planned = schedule(*seed, *number, *store, *length);
    eprintln!("\n{}, turn {number}, {} s, {} planned:", store.name(), length.as_secs(), planned.len());
    for one in &planned {
        eprintln!("  {one}");
    }
    let mut scene = Scene::start(*store, &program, !settings.is_timed);
    let laws = Arc::new((settings.laws)(*store));
    let book = Arc::new(Book::new(store.instances(), laws.len()));
    book.pages().timeline.is_patient = !settings.is_timed;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stage = stage(settings, &scene, &book, &runtime);
    let clients = clients(settings, &stage, &laws, &runtime);
    if *store != StoreKind::Memory {
        eprintln!("  the nodes are of {}", program.name);
    }
    let scrapers: Vec<JoinHandle<()>> =
        (0..store.instances()).map(|instance| runtime.spawn(scrape(Arc::clone(&stage), instance))).collect();
    // Where time is not judged, a machine that stands still is no excuse for anything.
    let heart = settings.is_timed.then(|| runtime.spawn(beat(Arc::clone(&book))));
    let mut checker = Checker::new(laws.to_vec(), store.instances(), HELD_PLACES, settings.is_timed);
    let unserved = await_service(&book);
    let (failure, nodes) = thread::scope(|scope| {
        let mut lanes = Vec::new();
        for lane in Lane::ALL {
            let of_lane: Vec<Planned> =
                planned.iter().filter(|one| one.fault.lane() == lane).copied().collect();
            let nodes =
                (lane == Lane::Nodes).then(|| (std::mem::replace(&mut scene, Scene::Memory), &program));
            let stage = &stage;
            lanes.push(scope.spawn(move || {
                let mut saboteur = Saboteur::new(stage, nodes);
                let went = catch_unwind(AssertUnwindSafe(|| saboteur.run(&of_lane)));
                if let Err(panic) = went {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    let figures = text.unwrap_or_default();
                    stage.broken.lock().unwrap().push(Violation { invariant: DONE, figures });
                }
                stage.lanes.fetch_sub(1, Ordering::Relaxed);
                saboteur.rest()
            }));
        }
        let failure = unserved.or_else(|| watch(&stage, &mut checker, *length));
        let failure = failure.map(|found| (book.now(), found));
        stage.stop.store(true, Ordering::Relaxed);
        // The nodes are needed until the last request is answered.
        let nodes: Vec<Option<Scene>> = lanes.into_iter().map(|lane| lane.join().unwrap()).collect();
        (failure, nodes)
    });
    runtime.block_on(async {
        for task in clients {
            let _ = timeout(2 * SETTLE, task).await;
        }
        if let Some(heart) = heart {
            heart.abort();
        }
        for (instance, task) in scrapers.into_iter().enumerate() {
            task.abort();
            // Now that nobody asks, sums are exact but for what got lost.
            let sums = scrape_last(&stage, instance).await;
            stage.sums.lock().unwrap()[instance] = sums;
            if sums.is_none() && failure.is_none() {
                let figures = format!("instance {instance} does not say what it has counted");
                stage.broken.lock().unwrap().push(Violation { invariant: STATS, figures });
            }
        }
    });
    let last = || Some((book.now(), look(&stage, &mut checker, 0))).filter(|(_, found)| !found.is_empty());
    let failure = failure.or_else(last);
    drop(nodes);
    runtime.shutdown_timeout(SETTLE);
    let pages = book.pages();
    if let Some((now, violations)) = failure {
        let history = pages.timeline.lines();
        return Err(Box::new(Failure { second: seconds(now), violations, history }));
    }
    let mut judged = checker.judged.clone();
    judged.add_all(&pages.judged);
    let stalled: Nanos = pages.timeline.stalls.iter().map(|(from, to)| to - from).sum();
    let mut faults = BTreeMap::new();
    for one in &pages.timeline.happened {
        *faults.entry(one.fault).or_insert(0) += 1;
    }
    Ok(TurnReport {
        store: *store,
        lasted: Duration::from_nanos(book.now()),
        totals: pages.totals,
        faults,
        longest: checker.longest(),
        p99: checker.p99(),
        usages: checker.usages,
        judged,
        stalled: Duration::from_nanos(stalled),
    })
}

/// Starts the servers.
fn stage(settings: &TurnSettings, scene: &Scene, book: &Arc<Book>, runtime: &Runtime) -> Arc<Stage> {
    let TurnSettings { store, folder, .. } = settings;
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("plans.toml"), plans::file(Version::Usual)).unwrap();
    fs::write(path("envoy.yaml"), plans::ENVOY_FILE).unwrap();
    let disk = (*store == StoreKind::Memory).then(|| {
        let mounted = folder.join("disk");
        fs::create_dir_all(&mounted).unwrap();
        Disk::mount(&mounted).map(Arc::new)
    });
    let is_encrypted = *store != StoreKind::Memory && settings.has_tls;
    let authority = is_encrypted.then(|| {
        let authority = Authority::new(folder);
        authority.issue();
        let trusted = authority.client();
        (authority, trusted)
    });
    let instances = (0..store.instances()).map(|number| {
        let clock = settings.faketime.clone().map(|library| {
            let clock = folder.join(format!("clock-{number}"));
            crate::soak::instance::set_clock(&clock, 0);
            (library, clock)
        });
        // The last one is encrypted.
        let tls = authority.as_ref().filter(|_| number + 1 == store.instances()).map(|(one, _)| one.files());
        let launch = Launch {
            binary: settings.binary.clone(),
            store: scene.url(),
            plans: path("plans.toml"),
            envoy: path("envoy.yaml"),
            tls,
            state: (*store == StoreKind::Memory).then(|| path("disk/state.bin")),
            disk: disk.clone().flatten(),
            clock,
            is_patient: !settings.is_timed,
        };
        Instance::start(number, launch, book, folder)
    });
    let instances: Vec<Instance> = instances.collect();
    let scraped = instances.iter().map(|instance| {
        let trusted = authority.as_ref().map(|(_, trusted)| Arc::clone(trusted));
        (instance.address("http"), trusted.filter(|_| instance.is_encrypted()))
    });
    let scraped = scraped.collect();
    Arc::new(Stage {
        store: *store,
        is_timed: settings.is_timed,
        lanes: AtomicUsize::new(Lane::ALL.len()),
        book: Arc::clone(book),
        instances: instances.into_iter().map(Mutex::new).collect(),
        authority,
        plans: folder.join("plans.toml"),
        handle: runtime.handle().clone(),
        stop: Arc::default(),
        broken: Mutex::default(),
        scraped,
        sums: Mutex::new(vec![None; store.instances()]),
    })
}

/// Starts the good clients: one of each wire on each of four servers, three of each on a single one.
fn clients(
    settings: &TurnSettings,
    stage: &Arc<Stage>,
    laws: &Arc<Vec<Law>>,
    runtime: &Runtime,
) -> Vec<JoinHandle<()>> {
    let copies = if settings.store.instances() == 1 { 3 } else { 1 };
    // Clients of another turn ask for other keys at other times.
    let seed = settings.seed.wrapping_mul(1_000_003).wrapping_add(settings.number * 1_000);
    let mut tasks = Vec::new();
    for instance in 0..settings.store.instances() {
        let (addresses, is_encrypted) = {
            let instance = stage.instances[instance].lock().unwrap();
            (instance.addresses(), instance.is_encrypted())
        };
        for wire in Wire::ALL.into_iter().cycle().take(copies * Wire::ALL.len()) {
            // The Rust client does not encrypt.
            if is_encrypted && wire == Wire::Msgpack {
                continue;
            }
            let address = addresses.iter().find(|(name, _)| *name == wire.transport()).unwrap().1;
            let now = stage.book.now();
            let number = stage.book.pages().add_client(instance, now);
            let trusted = stage.authority.as_ref().map(|(_, trusted)| Arc::clone(trusted));
            let client = GoodClient {
                book: Arc::clone(&stage.book),
                laws: Arc::clone(laws),
                instance,
                number,
                wire,
                address,
                tls: trusted.filter(|_| is_encrypted),
                random: Random::new(seed.wrapping_add(number as u64)),
                patience: if settings.is_timed { CLIENT_PATIENCE } else { PATIENCE },
                stop: Arc::clone(&stage.stop),
                pending: Pending::default(),
            };
            tasks.push(runtime.spawn(client.run()));
        }
    }
    tasks
}

/// Waits until every client has had a decision since now, which is when the turn begins; says so if some never do.
fn await_service(book: &Book) -> Option<Vec<Violation>> {
    book.pages().timeline.started = book.now();
    let deadline = Instant::now() + MOST_OVERTIME;
    while Instant::now() < deadline {
        let now = book.now();
        let mut pages = book.pages();
        if pages.is_everybody_served(now) {
            pages.timeline.started = now;
            return None;
        }
        drop(pages);
        thread::park_timeout(Duration::from_millis(20));
    }
    Some(vec![Violation { invariant: SILENCE, figures: unserved(book) }])
}

/// Who has not had a decision since whatever disturbed it was over.
fn unserved(book: &Book) -> String {
    let now = book.now();
    let pages = book.pages();
    let waiting = pages
        .last_decided
        .iter()
        .enumerate()
        .filter(|(_, (instance, decided))| *decided <= pages.timeline.last_disturbance(*instance, now));
    let waiting: Vec<String> =
        waiting.map(|(client, (instance, _))| format!("client {client} of instance {instance}")).collect();
    format!("not served again within {} s: {}", MOST_OVERTIME.as_secs(), waiting.join(", "))
}

/// Notes when the machine stands still.
async fn beat(book: Arc<Book>) {
    let mut ticks = interval(BEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = book.now();
    loop {
        ticks.tick().await;
        let now = book.now();
        if now - last > u64::try_from(STALL.as_nanos()).unwrap() {
            book.pages().timeline.stalls.push((last, now));
        }
        last = now;
    }
}

/// Asks a server once a second what it has counted.
async fn scrape(stage: Arc<Stage>, instance: usize) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection: Option<Http> = None;
    // What the same process said before, by the epoch of its start.
    let mut earlier: VecDeque<(u64, Instant, [u64; 3])> = VecDeque::new();
    loop {
        ticks.tick().await;
        let began = Instant::now();
        let look = scrape_once(&stage, instance, &mut connection);
        let Ok(Some((epoch, mut sums))) = timeout(Duration::from_secs(2), look).await else { continue };
        earlier.retain(|(of, ..)| *of == epoch);
        if stage.is_timed {
            let old = earlier.iter().rev().find(|(_, at, _)| began.duration_since(*at) >= STATS_AGE);
            sums.stats_at_least = old.map(|(.., metrics)| *metrics).unwrap_or_default();
        }
        earlier.push_back((epoch, Instant::now(), sums.metrics));
        if earlier.len() > 10 {
            earlier.pop_front();
        }
        stage.sums.lock().unwrap()[instance] = Some(sums);
    }
}

/// What a server has counted when nobody asks any more: both of its pages come to the same, and soon.
async fn scrape_last(stage: &Stage, instance: usize) -> Option<Sums> {
    let deadline = Instant::now() + if stage.is_timed { SETTLE } else { PATIENCE };
    let mut ticks = interval(Duration::from_millis(100));
    let mut last = None;
    while Instant::now() < deadline {
        ticks.tick().await;
        let look = timeout(SETTLE, scrape_once(stage, instance, &mut None)).await;
        let Some((_, sums)) = look.ok().flatten() else { continue };
        last = Some(Sums { is_final: true, ..sums });
        if sums.stats == sums.metrics {
            break;
        }
    }
    last
}

/// What a server has counted, between two looks at what clients have, and the epoch of its start; none if it does not answer,
/// or was started meanwhile.
async fn scrape_once(stage: &Stage, instance: usize, connection: &mut Option<Http>) -> Option<(u64, Sums)> {
    let mut http = match connection.take() {
        Some(http) => http,
        None => {
            let (address, tls) = stage.scraped[instance].clone();
            Http::connect(address, tls.as_ref()).await.ok()?
        }
    };
    let before = stage.book.pages().instances[instance];
    let stats = http.get("/v1/stats").await.ok()?;
    let metrics = http.get("/metrics").await.ok()?;
    let after = stage.book.pages().instances[instance];
    *connection = Some(http);
    let is_same = before.epoch == after.epoch && before.epoch.is_multiple_of(2);
    let sums = Sums {
        answered: before.counts.answered,
        allowed: before.counts.allowed,
        denied: before.counts.denied,
        asked: after.counts.asked,
        metrics: counted(&metrics)?,
        stats: shown_counts(&stats)?,
        ..Sums::default()
    };
    is_same.then_some((before.epoch, sums))
}

/// Requests by result, over all transports, as the metrics have them.
fn counted(metrics: &str) -> Option<[u64; 3]> {
    let sum = |result: &str| {
        let end = format!("result=\"{result}\"}} ");
        let lines = metrics.lines().filter_map(|line| line.strip_prefix("ratekeeper_requests_total{"));
        lines
            .filter_map(|line| line.split_once(&end))
            .map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum::<Option<u64>>()
    };
    Some([sum("allowed")?, sum("denied")?, sum("error")?])
}

/// The same as the console has them.
fn shown_counts(stats: &str) -> Option<[u64; 3]> {
    let stats: serde_json::Value = serde_json::from_str(stats).ok()?;
    let of = |name: &str| -> Option<u64> {
        stats["transports"].as_array()?.iter().map(|transport| transport["total"][name].as_u64()).sum()
    };
    Some([of("allowed")?, of("denied")?, of("errors")?])
}

/// Looks once a second until the turn is over, or something cannot be. A turn is over when its time is, its faults are,
/// everybody is served again, and enough was judged.
fn watch(stage: &Stage, checker: &mut Checker, length: Duration) -> Option<Vec<Violation>> {
    let began = Instant::now();
    let mut seconds = 0;
    loop {
        if began.elapsed() >= length {
            let missing = missing(stage, checker, rest(length));
            if missing.is_empty() {
                return None;
            }
            if began.elapsed() >= length + MOST_OVERTIME {
                return Some(missing);
            }
        }
        seconds += 1;
        let next = began + Duration::from_secs(seconds);
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            thread::park_timeout(left);
        }
        let violations = look(stage, checker, LATER);
        if !violations.is_empty() {
            return Some(violations);
        }
    }
}

/// What a turn that is over still waits for.
fn missing(stage: &Stage, checker: &Checker, rest: Duration) -> Vec<Violation> {
    let now = stage.book.now();
    let (last_end, is_served, mut judged) = {
        let pages = stage.book.pages();
        (pages.timeline.last_end(), pages.is_everybody_served(now), pages.judged.clone())
    };
    judged.add_all(&checker.judged);
    let mut missing = Vec::new();
    let rests_until = |end: Nanos| end + u64::try_from(rest.as_nanos()).unwrap();
    if stage.lanes.load(Ordering::Relaxed) > 0 || last_end.is_none_or(|end| rests_until(end) > now) {
        let figures = format!("faults go on {} s after their time", MOST_OVERTIME.as_secs());
        missing.push(Violation { invariant: DONE, figures });
    }
    if !is_served {
        missing.push(Violation { invariant: SILENCE, figures: unserved(&stage.book) });
    }
    let too_seldom = judged.too_seldom().into_iter();
    missing.extend(too_seldom.map(|figures| Violation { invariant: TOO_SELDOM, figures }));
    missing
}

/// Requests are judged so much later: by then it is known whether the machine stood still.
const LATER: Nanos = SECOND;

/// One look, at requests that were over so long ago.
fn look(stage: &Stage, checker: &mut Checker, later: Nanos) -> Vec<Violation> {
    let mut readings: Vec<Reading> = Vec::new();
    for (number, instance) in stage.instances.iter().enumerate() {
        // One that is being killed or started is looked at the next time.
        let Ok(mut instance) = instance.try_lock() else { continue };
        let sums = stage.sums.lock().unwrap()[number].take();
        readings.push(Reading { sums, ..instance.read() });
    }
    let now = stage.book.now();
    let (timeline, admitted, refused, holds, samples, last_decided) = {
        let mut pages = stage.book.pages();
        pages.prune(now);
        let is_due = |sample: &mut Sample| sample.answered + later <= now;
        let samples: Vec<Sample> = pages.samples.extract_if(.., is_due).collect();
        // Copied, so that clients do not wait for the checker.
        let Pages { timeline, admitted, refused, holds, last_decided, .. } = &*pages;
        (timeline.clone(), admitted.clone(), refused.clone(), holds.clone(), samples, last_decided.clone())
    };
    let seen = Seen {
        now,
        timeline: &timeline,
        admitted: &admitted,
        refused: &refused,
        holds: &holds,
        samples: &samples,
        last_decided: &last_decided,
        readings: &readings,
    };
    let mut violations = checker.second(&seen);
    violations.append(&mut stage.broken.lock().unwrap());
    violations
}

/// Waits until a server shows another certificate.
pub(crate) fn wait_for_certificate(stage: &Stage, instance: usize, expected: &[u8]) -> bool {
    let Some((_, trusted)) = &stage.authority else { return true };
    let address = stage.instances[instance].lock().unwrap().address("http");
    let deadline = Instant::now() + stage.reloaded_within();
    while Instant::now() < deadline {
        let shown = stage.handle.block_on(shown(address, Arc::clone(trusted)));
        if shown.is_some_and(|shown| shown.as_ref() == expected) {
            return true;
        }
        thread::park_timeout(Duration::from_millis(50));
    }
    false
}
