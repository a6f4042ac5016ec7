//! How long, on which stores, with which seed: by the environment, which `cargo xtask soak` sets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::soak::plans;
use crate::soak::schedule::StoreKind;
use crate::soak::turn::TurnSettings;
use test_support::binary::without_settings;

/// The seed of the run that is part of the tests.
const FIXED_SEED: u64 = 19;
/// How long that is on each store.
const SHORT_TURN: Duration = Duration::from_secs(8);
/// The longest that one store is used before it is another's turn, unless it is told.
const TURN_MINUTES: u64 = 5;
/// A turn of less has hardly a fault.
const LEAST_TURN: Duration = Duration::from_secs(30);

/// What is run.
#[derive(Debug)]
pub(crate) struct SoakSettings {
    pub(crate) seed: u64,
    pub(crate) turns: Vec<(StoreKind, Duration)>,
    /// The only turn of them that is run; all if none.
    pub(crate) only_turn: Option<u64>,
    pub(crate) binary: PathBuf,
    /// Whether somebody has chosen that, so that who runs it again must, too.
    is_chosen: bool,
    has_tls: bool,
    pub(crate) faketime: Option<PathBuf>,
    pub(crate) folder: PathBuf,
    /// None for the short run.
    minutes: Option<u64>,
    turn_minutes: u64,
    only: Option<StoreKind>,
}

impl SoakSettings {
    /// Reads them. Files go below a folder of this name, which is emptied.
    pub(crate) fn read(name: &str) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let number = |name: &str| {
            let parse = |value: String| {
                value.parse::<u64>().unwrap_or_else(|_| panic!("{name}: `{value}`; a whole number"))
            };
            variable(name).map(parse)
        };
        let minutes = number("RATEKEEPER_SOAK_MINUTES");
        let turn_minutes = number("RATEKEEPER_SOAK_TURN_MINUTES").unwrap_or(TURN_MINUTES);
        let seed = number("RATEKEEPER_SOAK_SEED").unwrap_or(FIXED_SEED);
        let only = variable("RATEKEEPER_SOAK_ON").map(|name| {
            let found = StoreKind::ALL.into_iter().find(|store| store.name() == name);
            found.unwrap_or_else(|| panic!("RATEKEEPER_SOAK_ON: {name}; memory, redis, cluster or sentinel"))
        });
        let binary = variable("RATEKEEPER_SOAK_BINARY")
            .map_or_else(|| PathBuf::from(test_support::binary::path()), PathBuf::from);
        assert!(binary.is_file(), "RATEKEEPER_SOAK_BINARY: `{}`; no such file", binary.display());
        let faketime = variable("RATEKEEPER_FAKETIME").map(PathBuf::from);
        if faketime.is_none() {
            eprintln!(
                "soak: clocks are left alone: RATEKEEPER_FAKETIME is not set, `cargo xtask` finds or installs it"
            );
        }
        let has_tls = has_tls(&binary);
        let folder =
            std::env::temp_dir().join("ratekeeper-tests").join(format!("{name}-{}", std::process::id()));
        // Numbers of processes come again: a server must not find the state of another run.
        let _ = fs::remove_dir_all(&folder);
        let stores: Vec<StoreKind> = only.map_or_else(|| StoreKind::ALL.to_vec(), |store| vec![store]);
        let turns = turns(minutes, turn_minutes, &stores);
        let only_turn = number("RATEKEEPER_SOAK_TURN");
        let most = turns.len() as u64 - 1;
        assert!(
            only_turn.is_none_or(|turn| turn <= most),
            "RATEKEEPER_SOAK_TURN: {only_turn:?}; at most {most}"
        );
        SoakSettings {
            seed,
            turns,
            only_turn,
            binary,
            is_chosen: variable("RATEKEEPER_SOAK_BINARY_IS_CHOSEN").is_some(),
            has_tls,
            faketime,
            folder,
            minutes,
            turn_minutes,
            only,
        }
    }

    /// One turn of it.
    pub(crate) fn turn(&self, number: u64, store: StoreKind, length: Duration) -> TurnSettings {
        let stores = if self.only.is_some() { 1 } else { StoreKind::ALL.len() as u64 };
        TurnSettings {
            seed: self.seed,
            number,
            store,
            is_valkey: is_valkey(number / stores, store),
            length,
            is_timed: self.minutes.is_some(),
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

    /// The command that runs a turn again, and nothing else.
    pub(crate) fn again(&self, turn: u64) -> String {
        let mut command = "cargo xtask soak".to_owned();
        match self.minutes {
            Some(minutes) => {
                command.push_str(&format!(" --minutes {minutes} --turn-minutes {}", self.turn_minutes));
            }
            None => command.push_str(" --short"),
        }
        command.push_str(&format!(" --seed {}", self.seed));
        if let Some(store) = self.only {
            command.push_str(&format!(" --on {}", store.name()));
        }
        if self.is_chosen {
            command.push_str(&format!(" --binary {}", self.binary.display()));
        }
        command.push_str(&format!(" --turn {turn}"));
        command
    }
}

/// Whether the nodes of a turn are of Valkey: each store has it in every other round, and in each round some have.
fn is_valkey(round: u64, store: StoreKind) -> bool {
    let place = StoreKind::ALL.into_iter().position(|one| one == store).unwrap() as u64;
    (round + place).is_multiple_of(2)
}

/// Whether a server can be encrypted; it says so if it cannot.
fn has_tls(binary: &Path) -> bool {
    let mut command = Command::new(binary);
    let files = ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"];
    without_settings(&mut command).args(["serve", "--resp", "127.0.0.1:0"]).args(files);
    let said = command.stdin(Stdio::null()).output();
    let said = said.unwrap_or_else(|error| panic!("cannot run {}: {error}", binary.display())).stderr;
    let has_tls = !String::from_utf8_lossy(&said).contains("this build has no TLS");
    if !has_tls {
        eprintln!(
            "soak: no server is encrypted: {} has no TLS, build it with `--all-features`",
            binary.display()
        );
    }
    has_tls
}

/// The stores in turn, in whole rounds, until the time is used up.
fn turns(minutes: Option<u64>, turn_minutes: u64, stores: &[StoreKind]) -> Vec<(StoreKind, Duration)> {
    let Some(minutes) = minutes else {
        return stores.iter().map(|store| (*store, SHORT_TURN)).collect();
    };
    let rounds = minutes.div_ceil(turn_minutes.max(1)).div_ceil(stores.len() as u64);
    let count = usize::try_from(rounds).unwrap() * stores.len();
    let length = Duration::from_secs(60 * minutes / count as u64);
    assert!(
        length >= LEAST_TURN,
        "RATEKEEPER_SOAK_MINUTES: `{minutes}`; too few for {} stores of {} s",
        stores.len(),
        LEAST_TURN.as_secs()
    );
    stores.iter().cycle().take(count).map(|store| (*store, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(minutes: u64, turn_minutes: u64, stores: &[StoreKind]) -> Vec<u64> {
        let turns = turns(Some(minutes), turn_minutes, stores);
        turns.iter().map(|(_, length)| length.as_secs()).collect()
    }

    #[test]
    fn an_hour_goes_round_and_round() {
        let hour = turns(Some(60), 5, &StoreKind::ALL);
        assert_eq!(hour[4].0, StoreKind::Memory);
        assert_eq!(lengths(60, 5, &StoreKind::ALL), [300; 12]);
        assert_eq!(lengths(11, 5, &StoreKind::ALL), [165; 4], "all of it is used");
        assert_eq!(lengths(2, 5, &StoreKind::ALL), [30; 4], "no store is left out");
        assert_eq!(lengths(60, 60, &[StoreKind::Memory]), [3_600]);
        assert_eq!(turns(None, 5, &StoreKind::ALL).len(), 4);
    }

    #[test]
    fn every_store_has_redis_and_valkey_in_turn() {
        for store in StoreKind::ALL {
            assert_ne!(is_valkey(0, store), is_valkey(1, store));
        }
        assert_ne!(is_valkey(0, StoreKind::Redis), is_valkey(0, StoreKind::Cluster), "a short run has both");
    }
}
