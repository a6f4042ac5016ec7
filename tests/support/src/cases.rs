//! How many cases a random test tries, and how one that failed is repeated.
//!
//! An ordinary run tries a small, fixed share of the cases; `cargo xtask slow` sets `RATEKEEPER_THOROUGH` and tries all of them. A
//! case that fails prints a line that repeats exactly that case.

use std::any::Any;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use proptest::test_runner::{Config, FailurePersistence, PersistedSeed, RngSeed};

/// Set where all cases are tried.
const THOROUGH: &str = "RATEKEEPER_THOROUGH";
/// Names the one case that a property test tries.
const CASE: &str = "RATEKEEPER_CASE";
/// Names the one seed that a seeded test tries.
const SEED: &str = "RATEKEEPER_SEED";

/// Any number: with another one, ordinary runs try other cases.
const ORDINARY_SEED: u64 = 31;

/// An ordinary run tries one case in so many.
const SHARE: u32 = 8;

/// Returns true if all cases are tried.
pub fn is_thorough() -> bool {
    std::env::var_os(THOROUGH).is_some()
}

/// Returns how many of `all` cases this run tries.
pub fn share(all: u32) -> u32 {
    if is_thorough() { all } else { all.div_ceil(SHARE) }
}

/// Returns the configuration of a property test that has `all` cases in a thorough run.
///
/// An ordinary run draws the same cases each time, so that it passes or fails by the code alone. A thorough run draws new ones.
pub fn config(all: u32) -> Config {
    let rng_seed = if is_thorough() { RngSeed::Random } else { RngSeed::Fixed(ORDINARY_SEED) };
    Config {
        // The case that the environment names is tried besides.
        cases: if std::env::var_os(CASE).is_some() { 0 } else { share(all) },
        max_shrink_iters: 4 * share(all).max(256),
        rng_seed,
        failure_persistence: Some(Box::new(Announcement)),
        ..Config::default()
    }
}

/// Calls `run` with the seeds from 0 on, a [`share`] of `count`, or with the one that `RATEKEEPER_SEED` names.
///
/// # Panics
///
/// If `run` does, after it has printed how to repeat that seed.
pub fn each_seed(count: u32, run: impl Fn(u64)) {
    first_seeds(share(count), run);
}

/// Calls `run` with so many seeds, from 0 on, in any run, or with the one that `RATEKEEPER_SEED` names.
///
/// # Panics
///
/// If `run` does, after it has printed how to repeat that seed.
pub fn first_seeds(count: u32, run: impl Fn(u64)) {
    if let Ok(seed) = std::env::var(SEED) {
        return run(seed.parse().expect("RATEKEEPER_SEED is a number"));
    }
    for seed in 0..u64::from(count) {
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("{}", command(SEED, &seed.to_string()));
            resume_unwind(cause);
        }
    }
}

/// The line that repeats one case of the test that this thread runs.
fn command(variable: &str, value: &str) -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let own = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = own.rsplit_once('-').map_or(own.as_str(), |(target, _hash)| target);
    let target =
        if matches!(target, "it" | "slow") { format!("--test {target}") } else { "--lib".to_owned() };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned());
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    format!(
        "repeat this case: {variable}='{value}' cargo test -p {package} --all-features {target} -- --exact {test}"
    )
}

/// Prints how to repeat a case that failed, and has it repeated.
#[derive(Clone, Debug, PartialEq)]
struct Announcement;

impl FailurePersistence for Announcement {
    fn load_persisted_failures2(&self, _: Option<&'static str>) -> Vec<PersistedSeed> {
        let named = std::env::var(CASE).ok();
        named
            .map(|case| case.parse().expect("RATEKEEPER_CASE as a failed test has printed it"))
            .into_iter()
            .collect()
    }

    fn save_persisted_failure2(&mut self, _: Option<&'static str>, seed: PersistedSeed, _: &dyn Debug) {
        eprintln!("{}", command(CASE, &seed.to_string()));
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
