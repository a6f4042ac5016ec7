//! How long, on which stores, with which seed: by the environment, which `cargo xtask soak` sets.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::binary::without_settings;
use crate::plans;
use crate::schedule::StoreKind;
use crate::turn::TurnSettings;

/// The seed of the run that is part of the tests.
const FIXED_SEED: u64 = 19;
/// How long that is on each store.
const SHORT_TURN: Duration = Duration::from_secs(16);
/// The longest that one store is used before it is another's turn.
const LONG_TURN: Duration = Duration::from_secs(150);
/// A turn of less has hardly a fault.
const LEAST_TURN: Duration = Duration::from_secs(30);

/// What is run.
#[derive(Debug)]
pub(crate) struct SoakSettings {
    pub(crate) seed: u64,
    pub(crate) turns: Vec<(StoreKind, Duration)>,
    pub(crate) binary: PathBuf,
    has_tls: bool,
    pub(crate) faketime: Option<PathBuf>,
    pub(crate) folder: PathBuf,
    minutes: Option<u64>,
    only: Option<StoreKind>,
}

impl SoakSettings {
    pub(crate) fn read() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str| variable(name).map(|value| value.parse::<u64>().unwrap());
        let minutes = number("RATEKEEPER_SOAK_MINUTES");
        let seed = number("RATEKEEPER_SOAK_SEED").unwrap_or(FIXED_SEED);
        let only = variable("RATEKEEPER_SOAK_ON").map(|name| {
            let found = StoreKind::ALL.into_iter().find(|store| store.name() == name);
            found.unwrap_or_else(|| panic!("RATEKEEPER_SOAK_ON: {name}; memory, redis, cluster or sentinel"))
        });
        let binary = variable("RATEKEEPER_SOAK_BINARY")
            .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ratekeeper")), PathBuf::from);
        let faketime = variable("RATEKEEPER_FAKETIME").map(PathBuf::from);
        if faketime.is_none() {
            eprintln!(
                "soak: clocks are left alone: RATEKEEPER_FAKETIME is not set, `cargo xtask` finds or installs it"
            );
        }
        let has_tls = has_tls(&binary);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", std::process::id()));
        let stores: Vec<StoreKind> = only.map_or_else(|| StoreKind::ALL.to_vec(), |store| vec![store]);
        let turns = turns(minutes, &stores);
        SoakSettings { seed, turns, binary, has_tls, faketime, folder, minutes, only }
    }

    /// One turn of it.
    pub(crate) fn turn(&self, number: u64, store: StoreKind, length: Duration) -> TurnSettings {
        TurnSettings {
            seed: self.seed,
            number,
            store,
            length,
            binary: self.binary.clone(),
            has_tls: self.has_tls,
            faketime: self.faketime.clone(),
            folder: self.folder.join(format!("{number}-{}", store.name())),
            laws: plans::laws,
        }
    }

    /// How long all of it takes, starts not counted.
    pub(crate) fn seconds(&self) -> u64 {
        self.turns.iter().map(|(_, length)| length.as_secs()).sum()
    }

    /// The command that runs the same again.
    pub(crate) fn again(&self) -> String {
        let Some(minutes) = self.minutes else {
            return "cargo test --workspace --all-features --test soak -- --nocapture".to_owned();
        };
        let on = self.only.map(|store| format!(" --on {}", store.name())).unwrap_or_default();
        format!("cargo xtask soak --minutes {minutes} --seed {}{on}", self.seed)
    }
}

/// Whether a server can be encrypted; it says so if it cannot.
fn has_tls(binary: &Path) -> bool {
    let mut command = Command::new(binary);
    let files = ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"];
    without_settings(&mut command).args(["serve", "--resp", "127.0.0.1:0"]).args(files);
    let said = command.stdin(Stdio::null()).output().unwrap().stderr;
    let has_tls = !String::from_utf8_lossy(&said).contains("this build has no TLS");
    if !has_tls {
        eprintln!(
            "soak: no server is encrypted: {} has no TLS, build it with `--all-features`",
            binary.display()
        );
    }
    has_tls
}

/// The stores in turn, until the time is used up.
fn turns(minutes: Option<u64>, stores: &[StoreKind]) -> Vec<(StoreKind, Duration)> {
    let Some(minutes) = minutes else {
        return stores.iter().map(|store| (*store, SHORT_TURN)).collect();
    };
    let all = Duration::from_secs(60 * minutes);
    let length = (all / u32::try_from(stores.len()).unwrap()).clamp(LEAST_TURN, LONG_TURN);
    let count = (all.as_secs() / length.as_secs()).max(1);
    stores.iter().cycle().take(usize::try_from(count).unwrap()).map(|store| (*store, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_goes_round_and_round() {
        let hour = turns(Some(60), &StoreKind::ALL);
        assert_eq!(hour.len(), 24);
        assert_eq!(hour[4].0, StoreKind::Memory);
        assert_eq!(hour.iter().map(|(_, length)| length.as_secs()).sum::<u64>(), 3_600);
        assert_eq!(turns(Some(1), &StoreKind::ALL).len(), 2, "half a minute each");
        assert_eq!(turns(Some(2), &[StoreKind::Redis]), [(StoreKind::Redis, Duration::from_secs(120))]);
    }
}
