//! The fault matrix: every fault on every topology in every failure mode, as one table.
//!
//! A topology is booted once and goes through all faults that it can have. For each of them clients of all four failure
//! modes ask all the time, through two instances. What is expected stands in the table; what holds for every cell:
//!
//! - each request is answered once: what was answered sums up to what was sent
//! - no plan admits more than its quota, once for each life of its state
//! - keys that live on other nodes do not notice
//! - when the fault is over, service is back, on each instance and in each mode
//!
//! An ordinary run has each fault that is quick once, on Redis; `cargo xtask slow` has each on every topology, on Redis and on
//! Valkey.

mod crowd;
mod scene;

use ratekeeper::FailureMode;
use std::path::Path;

use self::Topology::{Cluster, Sentinel, Single};
use crate::guard::shared_limit::binaries;
use crowd::Crowd;
use scene::Scene;
use test_support::cases::is_thorough;
use test_support::wait;

/// Where the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Single,
    Cluster,
    Sentinel,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server dies, and whoever connects is refused. It is started again, empty; or its replica takes over.
    Killed,
    /// It hangs, connections and all. It goes on; or its replica takes over.
    Frozen,
    /// It closes its connections.
    CutOff,
    /// Its memory is full.
    OutOfMemory,
    /// It has fewer replicas than it must have to take writes.
    TooFewReplicas,
    /// It was made a replica.
    ReadOnly,
    /// It has another password.
    PasswordChanged,
    /// It has forgotten its scripts.
    ScriptsFlushed,
    /// It has forgotten everything.
    DataFlushed,
    /// A plan is edited: a rule more, rules in another order, another algorithm.
    RuleAdded,
    RulesSwapped,
    AlgorithmChanged,
    /// The key's slot goes to another node, and back.
    SlotMoved,
    /// The replica takes over by plan.
    FailoverPlanned,
}

/// Who answers while a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The failure mode: `open` admits, `closed` denies, `error` errs, and `local` decides by itself.
    InItsStead,
    /// The store, as if nothing had happened.
    ByTheStore,
    /// Either, for a moment: nothing lasts.
    Either,
}

struct Row {
    fault: Fault,
    on: &'static [Topology],
    answers: Answers,
    /// How many times a plan may be found unused: once, and again for each time that its state is lost.
    lives: u64,
    /// Only in the whole table: a failover takes seconds.
    is_slow: bool,
}

const fn row(fault: Fault, on: &'static [Topology], answers: Answers, lives: u64) -> Row {
    Row { fault, on, answers, lives, is_slow: false }
}

const EVERYWHERE: &[Topology] = &[Single, Cluster, Sentinel];

/// A row for each fault, or two if it does different things to different topologies. Where a topology is left out, it cannot
/// have the fault. One thing is not tried: that a replica of a cluster takes over unasked, after a node timeout. The nodes
/// here have a long one, so that a busy machine is not taken for a dead node.
const TABLE: [Row; 16] = [
    row(Fault::ScriptsFlushed, EVERYWHERE, Answers::ByTheStore, 1),
    row(Fault::DataFlushed, EVERYWHERE, Answers::ByTheStore, 2),
    row(Fault::RuleAdded, EVERYWHERE, Answers::ByTheStore, 1),
    row(Fault::RulesSwapped, EVERYWHERE, Answers::ByTheStore, 1),
    // To the other algorithm and back: either finds nothing that it can read.
    row(Fault::AlgorithmChanged, EVERYWHERE, Answers::ByTheStore, 3),
    row(Fault::SlotMoved, &[Cluster], Answers::ByTheStore, 1),
    row(Fault::CutOff, EVERYWHERE, Answers::Either, 1),
    row(Fault::OutOfMemory, EVERYWHERE, Answers::InItsStead, 1),
    row(Fault::TooFewReplicas, EVERYWHERE, Answers::InItsStead, 1),
    // A master of a cluster that has data cannot be made a replica.
    row(Fault::ReadOnly, &[Single, Sentinel], Answers::InItsStead, 1),
    row(Fault::PasswordChanged, EVERYWHERE, Answers::InItsStead, 1),
    row(Fault::Frozen, &[Single, Cluster], Answers::InItsStead, 1),
    // What was not passed on by then is lost, at the worst all of it.
    row(Fault::FailoverPlanned, &[Sentinel], Answers::Either, 2),
    // The nodes of a cluster wait for the replica.
    Row { is_slow: true, ..row(Fault::FailoverPlanned, &[Cluster], Answers::Either, 1) },
    Row { is_slow: true, ..row(Fault::Frozen, &[Sentinel], Answers::InItsStead, 2) },
    row(Fault::Killed, EVERYWHERE, Answers::InItsStead, 2),
];

/// What is answered while a fault lasts, counted for each mode.
const WHILE_IT_LASTS: u64 = 20;

pub(crate) const MODES: [FailureMode; 4] =
    [FailureMode::Open, FailureMode::Closed, FailureMode::Local, FailureMode::Error];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_fault_on_every_topology_in_every_mode() {
    let is_whole = is_thorough();
    for binary in binaries().into_iter().take(if is_whole { usize::MAX } else { 1 }) {
        let topologies = EVERYWHERE.iter().map(|topology| {
            let binary = binary.clone();
            tokio::spawn(async move { go_through(*topology, &binary, is_whole).await })
        });
        for topology in topologies.collect::<Vec<_>>() {
            topology.await.unwrap();
        }
    }
}

/// All rows of one topology, one after another.
async fn go_through(topology: Topology, binary: &Path, is_whole: bool) {
    let start = || tokio::task::block_in_place(|| Scene::start(topology, binary));
    let mut scene = None;
    // An ordinary run has each fault on one of its topologies, in turn.
    let is_tried = |number: usize, row: &Row| match is_whole {
        true => row.on.contains(&topology),
        false => !row.is_slow && row.on[number % row.on.len()] == topology,
    };
    for (_, row) in TABLE.iter().enumerate().filter(|(number, row)| is_tried(*number, row)) {
        let mut on = scene.take().unwrap_or_else(start);
        check(row, topology, binary, &mut on).await;
        scene = (!on.is_spent_by(row.fault)).then_some(on);
    }
}

/// The four cells of a row on one topology.
async fn check(row: &Row, topology: Topology, binary: &Path, scene: &mut Scene) {
    let what = format!("{:?} on {topology:?}", row.fault);
    let keys = tokio::task::block_in_place(|| scene.keys(row.fault));
    let crowd = Crowd::start(&scene.url(), &keys);
    crowd.each("before it", &what, wait::PATIENCE, |seen| seen.decided() >= WHILE_IT_LASTS).await;
    crowd.assert_none_failed(&what);

    tokio::task::block_in_place(|| scene.inflict(row.fault, binary, &keys, &crowd));
    let before = crowd.seen();
    crowd
        .each_since(&before, "while it lasts", &what, wait::PATIENCE, |mode, seen| {
            let expected = match row.answers {
                Answers::InItsStead => seen.by(mode),
                Answers::ByTheStore => seen.decided(),
                Answers::Either => seen.answered(),
            };
            expected >= WHILE_IT_LASTS
        })
        .await;

    tokio::task::block_in_place(|| scene.end(row.fault, &keys, &crowd));
    let before = crowd.seen();
    crowd.each_since(&before, "is back", &what, wait::PATIENCE, |_, seen| seen.is_back()).await;
    crowd
        .each_since(&before, "goes on", &what, wait::PATIENCE, |_, seen| seen.decided() >= WHILE_IT_LASTS)
        .await;
    if row.answers == Answers::ByTheStore {
        crowd.assert_none_failed(&what);
    }
    crowd.stop(&what, row.lives).await;
}
