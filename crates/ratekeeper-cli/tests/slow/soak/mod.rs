//! The real thing for minutes or hours: servers on each kind of store under load on every wire, while faults happen that a
//! seed has chosen. Once a second it is looked at from outside whether anything is as it cannot be.
//!
//! `cargo xtask soak --minutes 60` runs it for long, and `--seed S` the same faults again; without settings it is half a
//! minute with a fixed seed, and nothing is judged by the clock on the wall. [docs/soak.md](../../../../docs/soak.md) tells what it does and what it has found.
//!
//! Layout:
//! - `settings`, `report`: what is run, and what is told
//! - `schedule`: the faults of a seed; `timeline`: those that happened, and what they may do
//! - `law`, `plans`, `checker`: what must hold, in spans, sums and bounds; `seen`: what they are told; `judged`: how often
//! - `turn`: one store for a while; `inflict`: who does what the schedule says; `scene`, `instance`, `disk`, `certificates`:
//!   to whom
//! - `load`, `wires`, `bad_clients`: who asks; `book`: what they were told
//!
//! Nothing sleeps: who waits, waits for an instant or for a condition with a deadline.

#![cfg(target_os = "linux")]

mod bad_clients;
mod book;
mod certificates;
mod checker;
mod disk;
mod inflict;
mod instance;
mod judged;
mod law;
mod load;
mod plans;
mod report;
mod scene;
mod schedule;
mod seen;
mod settings;
mod timeline;
mod turn;
mod wires;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use checker::Violation;
use law::Law;
use schedule::StoreKind;
use settings::SoakSettings;
use turn::TurnSettings;

/// The machine belongs to one of the runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All stores in turn, for as long as it is told to. How often each invariant was judged has a floor, in every turn.
#[test]
fn soak() {
    let _alone = alone();
    let settings = SoakSettings::read("soak");
    eprintln!("soak: seed {}, {} s in {} turns", settings.seed, settings.seconds(), settings.turns.len());
    eprintln!("soak: {}, logs in {}", settings.binary.display(), settings.folder.display());
    let mut reports = Vec::new();
    for (number, (store, length)) in (0..).zip(&settings.turns) {
        if settings.only_turn.is_some_and(|only| only != number) {
            continue;
        }
        let turn = settings.turn(number, *store, *length);
        match turn::run(&turn) {
            Ok(report) => reports.push(report),
            Err(failure) => {
                let found: Vec<String> =
                    failure.violations.iter().take(20).map(|one| format!("  {one}")).collect();
                let history = failure.history.join("\n    ");
                panic!(
                    "soak: seed {}, turn {number} on {}, second {:.1}:\n{}\n  what had happened:\n    {history}\n  \
                     logs: {}\n  again: {}",
                    settings.seed,
                    store.name(),
                    failure.second,
                    found.join("\n"),
                    turn.folder.display(),
                    settings.again(number),
                );
            }
        }
    }
    eprintln!("{}", report::table(&reports));
    let _ = fs::remove_dir_all(&settings.folder);
}

/// A real server that allows more than is believed: the same as one that allows more than it was told to. Some requests are
/// enough for it, however busy the machine is.
#[test]
fn a_server_that_allows_too_much_is_found() {
    let _alone = alone();
    let stricter = |store: StoreKind| {
        let replace = |law: Law| match law.name {
            "daily" => Law::new("daily", &["3/day"]),
            _ => law,
        };
        plans::laws(store).into_iter().map(replace).collect()
    };
    let settings = SoakSettings::read("soak-too-much");
    let turn = settings.turn(1_000, StoreKind::Memory, Duration::from_secs(20));
    let failure = turn::run(&TurnSettings { laws: stricter, is_timed: false, ..turn }).unwrap_err();
    let is_it = |one: &Violation| one.invariant == judged::ADMITTED && one.figures.starts_with("`daily`: ");
    assert!(failure.violations.iter().any(is_it), "{:?}", failure.violations);
    let _ = fs::remove_dir_all(&settings.folder);
}
