//! Who does what the schedule says, when it says so.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::soak::bad_clients::bother;
use crate::soak::checker::Violation;
use crate::soak::judged::DONE;
use crate::soak::plans::{self, Version};
use crate::soak::scene::{NodeProgram, Scene};
use crate::soak::schedule::{Fault, Lane, Planned, StoreKind};
use crate::soak::timeline::{Effect, Nanos, SECOND, seconds};
use crate::soak::turn::{Stage, wait_for_certificate};

/// The least time between two faults of a lane, however late the first has ended.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// How long after its disk was full the file of state may be late.
const LATE_AFTER_FULL: Nanos = 6 * SECOND;

/// One lane of faults.
pub(crate) struct Saboteur<'a> {
    stage: &'a Stage,
    /// What the nodes are, for the lane that is about them.
    nodes: Option<(Scene, &'a NodeProgram)>,
    /// What the clocks of the nodes are off by.
    nodes_off: i64,
}

impl<'a> Saboteur<'a> {
    pub(crate) fn new(stage: &'a Stage, nodes: Option<(Scene, &'a NodeProgram)>) -> Self {
        Saboteur { stage, nodes, nodes_off: 0 }
    }

    /// Goes through its part of the schedule.
    pub(crate) fn run(&mut self, planned: &[Planned]) {
        let began = Instant::now();
        let mut next = began;
        for one in planned {
            if !self.wait_until(next.max(began + one.at)) {
                return;
            }
            self.inflict(one);
            next = Instant::now() + LEAST_PAUSE;
        }
    }

    /// Waits until the turn is over. Returns the nodes.
    pub(crate) fn rest(self) -> Option<Scene> {
        while !self.stage.stop.load(Ordering::Relaxed) {
            thread::park_timeout(Duration::from_millis(20));
        }
        self.nodes.map(|(scene, _)| scene)
    }

    /// Waits; false if the turn is over before.
    fn wait_until(&self, instant: Instant) -> bool {
        while !self.stage.stop.load(Ordering::Relaxed) {
            let left = instant.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left.min(Duration::from_millis(20)));
        }
        false
    }

    fn wait(&self, length: Duration) {
        self.wait_until(Instant::now() + length);
    }

    fn begin(&self, fault: Fault, instance: Option<usize>, effect: Effect) -> usize {
        let now = self.stage.book.now();
        let on = instance.map(|instance| format!(" (instance {instance})")).unwrap_or_default();
        eprintln!("  {:6.1} s  begins: {}{on}", seconds(now), fault.name());
        self.stage.book.pages().timeline.begin(fault, instance, now, effect)
    }

    fn end(&self, number: usize) {
        let now = self.stage.book.now();
        let mut pages = self.stage.book.pages();
        let one = &mut pages.timeline.happened[number];
        one.ended = Some(now);
        eprintln!(
            "  {:6.1} s  over: {} after {:.1} s",
            seconds(now),
            one.fault.name(),
            seconds(now - one.began)
        );
    }

    fn set_effect(&self, number: usize, effect: Effect) {
        self.stage.book.pages().timeline.happened[number].effect = effect;
    }

    /// Judges whether something that was done had its effect.
    fn expect(&self, has_worked: bool, figures: &str) {
        self.stage.book.pages().judged.add(DONE, true);
        if !has_worked {
            let violation = Violation { invariant: DONE, figures: figures.to_owned() };
            self.stage.broken.lock().unwrap().push(violation);
        }
    }

    fn inflict(&mut self, planned: &Planned) {
        match planned.fault.lane() {
            Lane::Instances => self.on_instance(planned),
            Lane::Nodes => self.on_nodes(planned),
            Lane::Clients => self.by_clients(planned),
        }
    }

    fn by_clients(&self, planned: &Planned) {
        let number = planned.on % self.stage.instances.len();
        let addresses = self.stage.instances[number].lock().unwrap().addresses();
        let happened = self.begin(planned.fault, Some(number), Effect::Nothing);
        let book = Arc::clone(&self.stage.book);
        self.stage.handle.block_on(bother(planned.fault, &book, number, &addresses, planned.length));
        self.end(happened);
    }

    fn on_instance(&self, planned: &Planned) {
        let number = planned.on % self.stage.instances.len();
        let instance = &self.stage.instances[number];
        let is_memory = self.stage.store == StoreKind::Memory;
        // Until it is known how old its state is.
        let crash = if is_memory { Effect::ForgetsSince(10 * SECOND) } else { Effect::Nothing };
        match planned.fault {
            Fault::InstanceKilled => {
                let happened = self.begin(planned.fault, Some(number), crash);
                let mut instance = instance.lock().unwrap();
                let age = instance.kill();
                if is_memory {
                    self.set_effect(happened, Effect::ForgetsSince(age));
                }
                self.wait(planned.length);
                instance.restart();
                drop(instance);
                self.end(happened);
            }
            Fault::InstanceFrozen => {
                let happened = self.begin(planned.fault, Some(number), Effect::Nothing);
                instance.lock().unwrap().freeze();
                self.wait(planned.length);
                instance.lock().unwrap().thaw();
                self.end(happened);
            }
            Fault::InstanceClock => self.step_instance(planned, number, is_memory),
            Fault::PlansChanged => self.exchange_plans(planned, Version::Changed),
            Fault::PlansBroken => self.exchange_plans(planned, Version::Wrong),
            Fault::CertificateChanged => {
                let encrypted = self.stage.instances.len() - 1;
                let Some((authority, _)) = &self.stage.authority else { return };
                let happened = self.begin(planned.fault, Some(encrypted), Effect::Nothing);
                let issued = authority.issue();
                self.stage.instances[encrypted].lock().unwrap().hang_up();
                let is_shown = wait_for_certificate(self.stage, encrypted, &issued);
                self.expect(is_shown, "the new certificate is not shown in time");
                self.end(happened);
            }
            _ => {
                let Some(disk) = instance.lock().unwrap().disk() else {
                    eprintln!("  no small disk here: {} is left out", planned.fault.name());
                    return;
                };
                let happened = self.begin(planned.fault, Some(number), Effect::Nothing);
                disk.fill();
                self.wait(planned.length);
                disk.clear();
                instance.lock().unwrap().late_until = self.stage.book.now() + LATE_AFTER_FULL;
                self.end(happened);
            }
        }
    }

    /// The clock of a server steps. One that has its state in memory is killed, too, for a process never notices.
    fn step_instance(&self, planned: &Planned, number: usize, is_memory: bool) {
        let instance = &self.stage.instances[number];
        if !instance.lock().unwrap().has_clock() {
            eprintln!("  no faketime here: {} is left out", planned.fault.name());
            return;
        }
        if !is_memory {
            let happened = self.begin(planned.fault, None, Effect::Nothing);
            instance.lock().unwrap().step_clock(planned.offset);
            self.wait(planned.length);
            self.end(happened);
            return;
        }
        let ahead = {
            let instance = instance.lock().unwrap();
            u64::try_from(planned.offset - instance.offset_ms).unwrap_or(0) * 1_000_000
        };
        let happened =
            self.begin(planned.fault, Some(number), Effect::ForgetsSinceAndAhead(10 * SECOND, ahead));
        instance.lock().unwrap().step_clock(planned.offset);
        self.wait(planned.length);
        let mut instance = instance.lock().unwrap();
        let age = instance.kill();
        self.set_effect(happened, Effect::ForgetsSinceAndAhead(age, ahead));
        instance.restart();
        drop(instance);
        self.end(happened);
    }

    /// Exchanges the file of plans on all servers, and back; both must be noticed.
    fn exchange_plans(&self, planned: &Planned, version: Version) {
        let happened = self.begin(planned.fault, None, Effect::Nothing);
        self.write_plans(version);
        self.wait(planned.length);
        if version == Version::Wrong {
            let is_told = self.reload_succeeds_is(false);
            self.expect(is_told, "a wrong file is not told of in /metrics in time");
        }
        self.write_plans(Version::Usual);
        let is_told = self.reload_succeeds_is(true);
        self.expect(is_told, "a file that is right again is not told of in /metrics in time");
        self.end(happened);
    }

    fn write_plans(&self, version: Version) {
        let beside = self.stage.plans.with_extension("new");
        fs::write(&beside, plans::file(version)).unwrap();
        fs::rename(&beside, &self.stage.plans).unwrap();
        for instance in &self.stage.instances {
            instance.lock().unwrap().hang_up();
        }
    }

    /// Whether the first server, which is not encrypted, says so within its time.
    fn reload_succeeds_is(&self, expected: bool) -> bool {
        let address = self.stage.instances[0].lock().unwrap().address("http");
        let deadline = Instant::now() + self.stage.reloaded_within();
        let line = format!("ratekeeper_reload_last_successful {}", u8::from(expected));
        while Instant::now() < deadline && !self.stage.stop.load(Ordering::Relaxed) {
            let page = self.stage.handle.block_on(async {
                let look = async {
                    crate::soak::wires::Http::connect(address, None).await.ok()?.get("/metrics").await.ok()
                };
                tokio::time::timeout(Duration::from_secs(1), look).await.ok().flatten()
            });
            if page.is_some_and(|page| page.lines().any(|found| found == line)) {
                return true;
            }
            thread::park_timeout(Duration::from_millis(50));
        }
        self.stage.stop.load(Ordering::Relaxed)
    }

    fn on_nodes(&mut self, planned: &Planned) {
        let Some((mut scene, program)) = self.nodes.take() else { return };
        if planned.fault == Fault::NodeClock && !program.has_clock() {
            eprintln!("  these nodes do not start under faketime: {} is left out", planned.fault.name());
            self.nodes = Some((scene, program));
            return;
        }
        let is_alone = matches!(scene, Scene::Single(_));
        let effect = match planned.fault {
            // Without persistence it starts empty; in company, a replica has most of it.
            Fault::NodeKilled if is_alone => Effect::Forgets,
            Fault::NodeKilled | Fault::FailoverPlanned => Effect::LosesWrites,
            Fault::NodeFrozen if !is_alone => Effect::LosesWrites,
            Fault::DataFlushed => Effect::Forgets,
            Fault::NodeClock => match planned.offset - self.nodes_off {
                ..-1_000 => Effect::Behind,
                step @ 1.. => Effect::Ahead(step.unsigned_abs() * 1_000_000),
                _ => Effect::Nothing,
            },
            _ => Effect::Nothing,
        };
        let happened = self.begin(planned.fault, None, effect);
        let wait = || self.wait(planned.length);
        match planned.fault {
            Fault::NodeKilled => scene.kill(planned.on, wait),
            Fault::NodeFrozen => scene.freeze(planned.on, wait),
            Fault::FailoverPlanned => scene.fail_over(planned.on),
            Fault::SlotMoved => scene.move_slot(planned.on),
            Fault::DataFlushed => scene.order(&["FLUSHALL"]),
            Fault::ScriptsFlushed => scene.order(&["SCRIPT", "FLUSH"]),
            _ => {
                program.step(planned.offset);
                wait();
                self.nodes_off = planned.offset;
            }
        }
        self.end(happened);
        self.nodes = Some((scene, program));
    }
}
