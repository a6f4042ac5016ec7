//! The real thing for minutes or hours: servers on each kind of store under load on every wire, while faults happen that a
//! seed has chosen. Once a second it is looked at from outside whether anything is as it cannot be.
//!
//! `cargo xtask soak --minutes 60` runs it for long, and `--seed S` the same faults again; without settings it is a minute
//! with a fixed seed. [docs/soak.md](../../../../docs/soak.md) tells what it does and what it has found.
//!
//! Layout:
//! - `settings`, `report`: what is run, and what is told
//! - `schedule`: the faults of a seed; `timeline`: those that happened, and what they may do
//! - `law`, `plans`, `checker`: what must hold, in spans, sums and bounds
//! - `turn`: one store for a while; `inflict`: who does what the schedule says; `scene`, `instance`, `disk`, `certificates`:
//!   to whom
//! - `load`, `wires`, `bad_clients`: who asks; `book`: what they were told
//!
//! Nothing sleeps: who waits, waits for an instant or for a condition with a deadline.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::cast_precision_loss, reason = "figures for people, and shares of bounds")]

mod bad_clients;
#[path = "../common/binary.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod binary;
mod book;
#[path = "../../../ratekeeper/tests/hostile/bound.rs"]
#[allow(dead_code, reason = "shared with the tests of the store, which use more of it")]
mod bound;
mod certificates;
mod checker;
mod disk;
#[path = "../common/eventually.rs"]
mod eventually;
#[path = "../common/folder.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod folder;
mod inflict;
mod instance;
mod law;
mod load;
mod plans;
#[path = "../../../ratekeeper-server/src/transport/grpc/generated/ratekeeper_v1.rs"]
#[rustfmt::skip]
#[allow(dead_code, missing_docs, unreachable_pub, reason = "nobody wrote it by hand")]
mod proto;
#[path = "../../../ratekeeper/tests/hostile/random.rs"]
mod random;
#[path = "../../../ratekeeper-redis/tests/support/mod.rs"]
mod redis_support;
mod report;
mod scene;
mod schedule;
mod settings;
#[path = "../wire/support.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests of the wires, which use more of it")]
mod support;
mod timeline;
mod turn;
mod wires;

use settings::SoakSettings;
use turn::TurnSettings;

/// All stores in turn, for as long as it is told to.
#[test]
fn soak() {
    let settings = SoakSettings::read();
    eprintln!("soak: seed {}, {} s on {} turns", settings.seed, settings.seconds(), settings.turns.len());
    eprintln!("soak: {}, logs in {}", settings.binary.display(), settings.folder.display());
    let mut reports = Vec::new();
    for (number, (store, length)) in (0..).zip(&settings.turns) {
        let turn = TurnSettings {
            seed: settings.seed,
            number,
            store: *store,
            length: *length,
            binary: settings.binary.clone(),
            faketime: settings.faketime.clone(),
            folder: turn::folder_of(&settings.folder, number, *store),
            laws: plans::laws,
        };
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
                    settings.again(),
                );
            }
        }
    }
    eprintln!("{}", report::table(&reports));
}
