//! A configuration file under watch: the plans of a running server follow it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use ratekeeper::{Plan, Registry};
use toml::Value;

use super::changes::{self, PlanChanges};
use super::document::Config;
use super::error::ConfigError;
use crate::error::{AnyError, with_causes};
use crate::watch::{EventKind, EventLevel, EventLog, ReloadCounts};
use crate::watcher::{FileLook, FileWatcher, is_no_file};

/// Checks everything that a file says, as a start would, and returns its plans.
pub type ReadPlans = Box<dyn Fn(&Config) -> Result<Vec<Plan>, Box<dyn Error + Send + Sync>> + Send>;

/// Watches a file that was read and whose plans are in the registry. A changed file takes effect when it was the same at
/// two looks in a row: one that is still being written may end anywhere. A file with a mistake changes nothing, and the
/// mistake is logged. `counts` and `events` are told of each reload.
///
/// # Errors
///
/// A thread cannot be started.
pub fn watch(
    config: &Config,
    registry: Registry,
    counts: ReloadCounts,
    events: EventLog,
    read_plans: ReadPlans,
) -> io::Result<FileWatcher> {
    let mut watched = WatchedConfig::new(config, registry, counts, events, read_plans);
    FileWatcher::start("reload", move |look| match look {
        FileLook::IfChanged => watched.if_changed(),
        FileLook::Now => watched.now(),
    })
}

/// A configuration file under watch.
struct WatchedConfig {
    path: PathBuf,
    /// What was found when the file was last acted upon. The contents themselves, because a file may be replaced by
    /// another of the same length and time.
    settled: FileText,
    /// A change that was seen once.
    fresh: Option<FileText>,
    /// The settings that this process runs with and that only a restart changes.
    running: BTreeMap<String, Value>,
    registry: Registry,
    counts: ReloadCounts,
    events: EventLog,
    read_plans: ReadPlans,
}

/// The text of a file, or why it cannot be read.
type FileText = Result<String, ConfigError>;

impl fmt::Debug for WatchedConfig {
    /// Without texts: there may be passwords in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedConfig").field("path", &self.path).finish_non_exhaustive()
    }
}

impl WatchedConfig {
    fn new(
        config: &Config,
        registry: Registry,
        counts: ReloadCounts,
        events: EventLog,
        read_plans: ReadPlans,
    ) -> Self {
        counts.started();
        WatchedConfig {
            path: config.path().to_owned(),
            settled: Ok(config.text().to_owned()),
            fresh: None,
            running: changes::fixed_settings(config.text()),
            registry,
            counts,
            events,
            read_plans,
        }
    }

    fn if_changed(&mut self) {
        if is_no_file(&self.path) {
            return;
        }
        let found = Config::read_text(&self.path);
        if found == self.settled {
            self.fresh = None;
        } else if Some(&found) == self.fresh.as_ref() {
            self.act_upon(found);
        } else {
            self.fresh = Some(found);
        }
    }

    fn now(&mut self) {
        let found = if is_no_file(&self.path) {
            Err(ConfigError::new(&self.path, None, "no regular file: it can be read once, at the start"))
        } else {
            Config::read_text(&self.path)
        };
        self.act_upon(found);
    }

    fn act_upon(&mut self, found: FileText) {
        self.fresh = None;
        let read = found.clone().map_err(Box::from).and_then(|text| self.read(text));
        self.settled = found;
        match read {
            Ok((plans, fixed)) => self.adopt(plans, &fixed),
            Err(error) => {
                self.counts.failed();
                let error = with_causes(&*error);
                tracing::error!(error, "reload: failed, the old plans stay");
                let text = format!("reload failed, the old plans stay: {error}");
                self.events.note(EventKind::Reload, EventLevel::Error, text);
            }
        }
    }

    /// Returns the plans and the other settings of a text, unless it cannot be meant.
    fn read(&self, text: String) -> Result<(Vec<Plan>, BTreeMap<String, Value>), AnyError> {
        let has_plans = !self.registry.all().is_empty();
        if text.trim().is_empty() {
            return Err(self.refused("the file is empty").into());
        }
        let fixed = changes::fixed_settings(&text);
        let config = Config::parse(&self.path, text)?;
        let plans = (self.read_plans)(&config)?;
        if plans.is_empty() && has_plans {
            return Err(self.refused("no plan is left in the file; to serve without plans, restart").into());
        }
        Ok((plans, fixed))
    }

    fn refused(&self, why: &str) -> ConfigError {
        ConfigError::new(&self.path, None, why)
    }

    fn adopt(&self, plans: Vec<Plan>, fixed: &BTreeMap<String, Value>) {
        let old: Vec<Plan> = self.registry.all().iter().map(|plan| Plan::clone(plan)).collect();
        let changes = PlanChanges::between(&old, &plans);
        let count = plans.len();
        self.registry.replace(plans);
        self.counts.succeeded();
        changes.log();
        let level = if changes.warns() { EventLevel::Warn } else { EventLevel::Info };
        self.events.note(EventKind::Reload, level, format!("plans reloaded: {}", changes.summary()));
        if let Some(settings) = changes::differing(&self.running, fixed) {
            tracing::warn!(settings, "reload: changed in the file, needs a restart");
        }
        let (added, removed, changed) = (changes.added.len(), changes.removed.len(), changes.changed.len());
        // Logged last: somebody may wait for this line.
        tracing::info!(plans = count, added, removed, changed, path = %self.path.display(), "reload: plans reloaded");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    use ratekeeper::port::Plans;

    use super::*;

    const GOLD: &str = "[plans.gold]\nlimits = [\"1/s\"]\n";
    const LEAD: &str = "[plans.lead]\nlimits = [\"1/s\"]\n";

    /// A file under watch, gone when the test ends.
    struct Case {
        path: PathBuf,
        registry: Registry,
        counts: ReloadCounts,
        watched: WatchedConfig,
    }

    impl Case {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ratekeeper-{name}-{}.toml", std::process::id()));
            fs::write(&path, GOLD).unwrap();
            let config = Config::read(&path).unwrap();
            let registry = Registry::new(config.plans().unwrap());
            let counts = ReloadCounts::default();
            let read_plans = Box::new(|config: &Config| Ok(config.plans()?));
            let watched = WatchedConfig::new(
                &config,
                registry.clone(),
                counts.clone(),
                EventLog::default(),
                read_plans,
            );
            Case { path, registry, counts, watched }
        }

        /// As often as it takes to be sure that nobody writes.
        fn look(&mut self) {
            self.watched.if_changed();
            self.watched.if_changed();
        }

        fn plans(&self) -> Vec<String> {
            self.registry.all().iter().map(|plan| plan.name().to_string()).collect()
        }

        fn counted(&self) -> (u64, u64, bool) {
            let reading = self.counts.read().unwrap();
            (reading.succeeded, reading.failed, reading.last_failed)
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }

    #[test]
    fn a_file_that_is_still_being_written_is_left_alone() {
        let mut case = Case::new("written");
        fs::write(&case.path, "[plans.silv").unwrap();
        case.watched.if_changed();
        fs::write(&case.path, "[plans.silver]\nlimits = [\"1/s\"]\n").unwrap();
        case.watched.if_changed();
        assert_eq!((case.plans(), case.counted()), (vec!["gold".to_owned()], (0, 0, false)));
        case.watched.if_changed();
        assert!(case.registry.find("gold").is_none() && case.registry.find("silver").is_some());
        assert_eq!(case.counted(), (1, 0, false));
    }

    #[test]
    fn what_says_nothing_changes_nothing() {
        let mut case = Case::new("nothing");
        for (index, text) in ["", " \n\n", "# a comment\n", "[server]\nloops = 1\n", "[plans.go", "\u{feff}"]
            .into_iter()
            .enumerate()
        {
            fs::write(&case.path, text).unwrap();
            case.look();
            let failed = index as u64 + 1;
            assert_eq!(
                (case.plans(), case.counted()),
                (vec!["gold".to_owned()], (0, failed, true)),
                "{text:?}"
            );
            case.look();
            assert_eq!(case.counted().1, failed, "told once: {text:?}");
        }
        fs::remove_file(&case.path).unwrap();
        case.look();
        fs::write(&case.path, [0xff, 0xfe]).unwrap();
        case.look();
        let too_large = usize::try_from(Config::MAX_BYTES).unwrap() + 1;
        fs::write(&case.path, "#".repeat(too_large)).unwrap();
        case.look();
        assert_eq!((case.plans(), case.counted()), (vec!["gold".to_owned()], (0, 9, true)));
        // The file that is in force comes back, and all is well.
        fs::write(&case.path, GOLD).unwrap();
        case.look();
        assert_eq!(case.counted(), (1, 9, false));
    }

    #[test]
    fn a_replacement_of_the_same_length_and_time_is_noticed() {
        let mut case = Case::new("same");
        let time = SystemTime::UNIX_EPOCH;
        let stamped = |path: &Path, text| {
            fs::write(path, text).unwrap();
            fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        };
        stamped(&case.path, GOLD);
        case.look();
        assert_eq!(GOLD.len(), LEAD.len());
        stamped(&case.path, LEAD);
        case.look();
        assert_eq!(case.plans(), ["lead"]);
        // Another file takes its place, as a deployment does it.
        let other = case.path.with_extension("new");
        stamped(&other, GOLD);
        fs::rename(&other, &case.path).unwrap();
        case.look();
        assert_eq!(case.plans(), ["gold"]);
    }

    /// How Kubernetes exchanges a mounted file: the link's link points elsewhere.
    #[cfg(unix)]
    #[test]
    fn a_link_that_points_elsewhere_is_noticed() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("ratekeeper-link-{}", std::process::id()));
        for (version, text) in [("1", GOLD), ("2", LEAD)] {
            fs::create_dir_all(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("a.toml"), text).unwrap();
        }
        symlink("1", folder.join("data")).unwrap();
        symlink("data/a.toml", folder.join("a.toml")).unwrap();
        let config = Config::read(&folder.join("a.toml")).unwrap();
        let registry = Registry::new(config.plans().unwrap());
        let read_plans = Box::new(|config: &Config| Ok(config.plans()?));
        let mut watched = WatchedConfig::new(
            &config,
            registry.clone(),
            ReloadCounts::default(),
            EventLog::default(),
            read_plans,
        );
        symlink("2", folder.join("next")).unwrap();
        fs::rename(folder.join("next"), folder.join("data")).unwrap();
        watched.if_changed();
        watched.if_changed();
        assert!(registry.find("lead").is_some() && registry.find("gold").is_none());
        fs::remove_dir_all(&folder).unwrap();
    }
}
