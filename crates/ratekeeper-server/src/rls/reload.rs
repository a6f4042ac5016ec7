//! Files under watch: the service follows them.

use std::io;
use std::sync::Arc;

use ratekeeper::port::Plans;
use ratekeeper::{Plan, Registry};

use super::finding::{RlsFinding, RlsRefusal};
use super::matching::RateLimitConfig;
use super::service::RateLimitService;
use super::source::{SourceFingerprint, SourceTexts, parse_sources, read_sources};
use crate::watcher::{FileLook, FileWatcher};

/// Lines about single mistakes or warnings that one load logs at the most.
const MOST_LINES: usize = 50;

/// Loads the files that the service is set to, and watches them. Files that have changed take effect when they were the
/// same at two looks in a row: a set that is still being written may be anything. One mistake in any of them refuses all,
/// is logged, and changes nothing; without a configuration the service answers that there is none.
///
/// `plans` are those that rules name. A rule that names none of them is a mistake, and is looked at again when the plans
/// change.
///
/// # Errors
///
/// A thread cannot be started.
pub fn watch_sources(service: &Arc<RateLimitService>, plans: &Registry) -> io::Result<FileWatcher> {
    let mut watched = WatchedSources::new(Arc::clone(service), plans.clone());
    watched.now();
    FileWatcher::start("rls", move |look| match look {
        FileLook::IfChanged => watched.if_changed(),
        FileLook::Now => watched.now(),
    })
}

/// Files under watch.
struct WatchedSources {
    service: Arc<RateLimitService>,
    plans: Registry,
    /// What was found when files were last acted upon, and whether it was refused.
    settled: Option<SettledSources>,
    /// A change that was seen once.
    fresh: Option<SourceFingerprint>,
    /// The plans as they were when rules were last held to them.
    seen_plans: Vec<Arc<Plan>>,
    /// What was last said of plans that the rules in force name.
    said_of_plans: Vec<RlsFinding>,
}

/// What files were last acted upon.
struct SettledSources {
    fingerprint: SourceFingerprint,
    /// If they were refused: whether the plans are all that is wrong with them.
    refused: Option<Blame>,
}

/// What is wrong with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    /// Something in them.
    Files,
    /// Plans that they name, which may come.
    Plans,
}

impl WatchedSources {
    fn new(service: Arc<RateLimitService>, plans: Registry) -> Self {
        WatchedSources {
            service,
            plans,
            settled: None,
            fresh: None,
            seen_plans: Vec::new(),
            said_of_plans: Vec::new(),
        }
    }

    fn read(&self) -> SourceTexts {
        let settings = self.service.settings();
        read_sources(&settings.paths, &settings.names)
    }

    fn if_changed(&mut self) {
        let found = self.read();
        let fingerprint = found.fingerprint();
        match &self.settled {
            Some(settled) if settled.fingerprint == fingerprint => {
                self.fresh = None;
                // Plans come from another file, which may be read after these.
                match settled.refused {
                    Some(Blame::Plans) if self.have_plans_changed() => self.act_upon(&found),
                    None if self.have_plans_changed() => self.look_at_plans(),
                    _ => {}
                }
            }
            _ if self.fresh == Some(fingerprint) => self.act_upon(&found),
            _ => self.fresh = Some(fingerprint),
        }
    }

    /// Somebody asked for it: what has changed takes effect at once, and what was refused is told again.
    fn now(&mut self) {
        let found = self.read();
        match &self.settled {
            Some(SettledSources { fingerprint, refused: None }) if *fingerprint == found.fingerprint() => {
                self.fresh = None;
                tracing::info!(files = found.len(), "rls: limits are unchanged");
            }
            _ => self.act_upon(&found),
        }
    }

    fn act_upon(&mut self, found: &SourceTexts) {
        self.fresh = None;
        self.seen_plans = self.plans.all();
        let parsed = parse_sources(found, self.service.settings());
        let (checked, blame) = match parsed {
            Ok((config, warnings)) => match config.check_plans(|name| self.plans.find(name)) {
                mistakes if mistakes.is_empty() => (Ok((config, warnings)), None),
                mistakes => (Err(RlsRefusal { mistakes, warnings }), Some(Blame::Plans)),
            },
            Err(refusal) => (Err(refusal), Some(Blame::Files)),
        };
        self.settled = Some(SettledSources { fingerprint: found.fingerprint(), refused: blame });
        match checked {
            Ok((config, warnings)) => self.adopt(config, &warnings, found.len()),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn adopt(&mut self, config: RateLimitConfig, warnings: &[RlsFinding], files: usize) {
        let (domains, rules) = (config.domains().len(), config.rules().len());
        self.said_of_plans.clear();
        self.service.load(config);
        tell(warnings, |warning| tracing::warn!("rls: {warning}"));
        // Logged last: somebody may wait for this line.
        tracing::info!(files, domains, rules, "rls: limits loaded");
    }

    fn refuse(&self, refusal: &RlsRefusal) {
        self.service.load_failed();
        tell(&refusal.mistakes, |mistake| tracing::error!("rls: {mistake}"));
        let mistakes = refusal.mistakes.len();
        match self.service.config() {
            Some(_) => tracing::error!(mistakes, "rls: limits not loaded, the old ones stay"),
            None => {
                tracing::error!(mistakes, "rls: limits not loaded, requests are errors until they are right")
            }
        }
    }

    /// A reload of plans replaces all of them.
    fn have_plans_changed(&self) -> bool {
        let now = self.plans.all();
        let is_same = |(one, other): (&Arc<Plan>, &Arc<Plan>)| Arc::ptr_eq(one, other);
        now.len() != self.seen_plans.len() || !now.iter().zip(&self.seen_plans).all(is_same)
    }

    /// Says it once when rules that are in force name plans that are gone, or cannot be used any more.
    fn look_at_plans(&mut self) {
        self.seen_plans = self.plans.all();
        let Some(config) = self.service.config() else { return };
        let wrong = config.check_plans(|name| self.plans.find(name));
        if wrong != self.said_of_plans {
            tell(&wrong, |mistake| {
                tracing::error!("rls: {mistake}; requests that find this rule are errors")
            });
            self.said_of_plans = wrong;
        }
    }
}

/// Tells of each, up to a bound.
fn tell(findings: &[RlsFinding], say: impl Fn(&RlsFinding)) {
    findings.iter().take(MOST_LINES).for_each(say);
    if let Some(more) = findings.len().checked_sub(MOST_LINES).filter(|more| *more > 0) {
        tracing::warn!(more, "rls: more is wrong than is told; `ratekeeper check --rls` tells all");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::settings::RlsSettings;

    /// A folder under watch, gone when the test ends.
    struct Case {
        folder: PathBuf,
        service: Arc<RateLimitService>,
        plans: Registry,
        watched: WatchedSources,
    }

    impl Case {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ratekeeper-rls-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self::at(folder.clone(), folder)
        }

        fn at(folder: PathBuf, path: PathBuf) -> Self {
            let settings = RlsSettings { paths: vec![path], ..RlsSettings::default() };
            let (service, plans) = (Arc::new(RateLimitService::new(settings)), Registry::default());
            let watched = WatchedSources::new(Arc::clone(&service), plans.clone());
            Case { folder, service, plans, watched }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.join(name), text).unwrap();
        }

        /// As often as it takes to be sure that nobody writes.
        fn look(&mut self) {
            self.watched.if_changed();
            self.watched.if_changed();
        }

        fn domains(&self) -> Option<Vec<String>> {
            let config = self.service.config()?;
            Some(config.domains().into_iter().map(str::to_owned).collect())
        }

        /// Loads that went well, and that did not.
        fn counted(&self) -> (u64, u64) {
            let counts = self.service.read_counts();
            (counts.config_load_success, counts.config_load_error)
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn domain(name: &str) -> String {
        format!(
            "domain: {name}\ndescriptors:\n  - key: a\n    rate_limit: {{unit: hour, requests_per_unit: 5}}\n"
        )
    }

    fn of_plan(plan: &str) -> String {
        format!("domain: edge\ndescriptors:\n  - key: a\n    rate_limit: {{plan: {plan}}}\n")
    }

    #[test]
    fn a_set_that_is_still_being_written_is_left_alone() {
        let mut case = Case::new("written");
        case.watched.now();
        assert_eq!((case.domains(), case.counted()), (Some(vec![]), (1, 0)), "an empty folder is right");
        case.write("a.yaml", "domain: ed");
        case.watched.if_changed();
        case.write("a.yaml", &domain("edge"));
        case.watched.if_changed();
        assert_eq!((case.domains(), case.counted()), (Some(vec![]), (1, 0)));
        case.watched.if_changed();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["edge".to_owned()]), (2, 0)));
        case.look();
        assert_eq!(case.counted(), (2, 0), "unchanged, not reloaded");
        case.watched.now();
        assert_eq!(case.counted(), (2, 0), "not even if it is asked for");
        fs::remove_file(case.folder.join("a.yaml")).unwrap();
        case.look();
        assert_eq!((case.domains(), case.counted()), (Some(vec![]), (3, 0)));
    }

    #[test]
    fn a_mistake_keeps_what_there_was() {
        let mut case = Case::new("mistake");
        case.write("a.yaml", "domain: ''\n");
        case.watched.now();
        assert_eq!((case.domains(), case.counted()), (None, (0, 1)), "nothing is loaded until one is right");
        case.watched.now();
        assert_eq!(case.counted(), (0, 2), "who asks is told again");
        case.write("a.yaml", &domain("edge"));
        case.watched.now();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["edge".to_owned()]), (1, 2)));
        case.write("b.yaml", "domain: [");
        case.look();
        case.look();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["edge".to_owned()]), (1, 3)), "told once");
        fs::remove_file(case.folder.join("b.yaml")).unwrap();
        case.look();
        assert_eq!(case.counted(), (2, 3), "the old set is right again");
    }

    #[test]
    fn a_folder_that_is_not_there_may_come() {
        let folder = std::env::temp_dir().join(format!("ratekeeper-rls-later-{}", std::process::id()));
        let mut case = Case::at(folder.clone(), folder);
        case.watched.now();
        assert_eq!((case.domains(), case.counted()), (None, (0, 1)));
        fs::create_dir_all(&case.folder).unwrap();
        case.write("a.yaml", &domain("edge"));
        case.look();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["edge".to_owned()]), (1, 1)));
    }

    #[test]
    fn rules_that_name_plans_are_loaded_when_there_are_such_plans() {
        let mut case = Case::new("plans");
        case.write("a.yaml", &of_plan("gold"));
        case.watched.now();
        assert_eq!((case.domains(), case.counted()), (None, (0, 1)));
        case.look();
        assert_eq!(case.counted(), (0, 1), "told once");
        case.plans.replace([Plan::parse("gold", "5/h").unwrap()]);
        case.watched.if_changed();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["edge".to_owned()]), (1, 1)));
        // A plan that goes is told of, and changes nothing else.
        case.plans.replace([Plan::parse("lead", "5/h").unwrap()]);
        case.look();
        assert_eq!((case.watched.said_of_plans.len(), case.counted()), (1, (1, 1)));
        case.plans.replace([Plan::parse("gold", "5/h").unwrap()]);
        case.look();
        assert!(case.watched.said_of_plans.is_empty());
    }

    /// How Kubernetes exchanges a mounted folder: the link `..data` points elsewhere.
    #[cfg(unix)]
    #[test]
    fn a_link_that_points_elsewhere_is_noticed() {
        use std::os::unix::fs::symlink;
        let mut case = Case::new("link");
        for (version, text) in [("..1", domain("one")), ("..2", domain("two"))] {
            fs::create_dir_all(case.folder.join(version)).unwrap();
            case.write(&format!("{version}/a.yaml"), &text);
        }
        symlink("..1", case.folder.join("..data")).unwrap();
        symlink(Path::new("..data/a.yaml"), case.folder.join("a.yaml")).unwrap();
        case.watched.now();
        assert_eq!(case.domains(), Some(vec!["one".to_owned()]), "files with a leading dot are not read");
        symlink("..2", case.folder.join("..next")).unwrap();
        fs::rename(case.folder.join("..next"), case.folder.join("..data")).unwrap();
        case.look();
        assert_eq!((case.domains(), case.counted()), (Some(vec!["two".to_owned()]), (2, 0)));
    }
}
