//! All that the service counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::rule_counts::{RuleCounts, RuleReading};
use super::series::Series;
use crate::rls::asked::RlsEntry;
use crate::rls::matching::{RateLimitConfig, StatName, write_override_stat};
use crate::rls::rule::RuleLimit;

/// The most series whose names are made of what requests bring, and the most of rules that are gone.
const MOST_SERIES: usize = 10_000;
/// What series beyond that are called.
const OTHER: &str = "_other";

/// All that the service counts but what is counted beside its rules.
#[derive(Debug)]
pub struct RlsCounts {
    /// Rules whose names have values of requests in them.
    by_value: Series<StatName, RuleCounts>,
    domains: Series<String, DomainCounts>,
    global_shadow: AtomicU64,
    store_errors: AtomicU64,
    service_errors: AtomicU64,
    ignored_limits: AtomicU64,
    loads: AtomicU64,
    failed_loads: AtomicU64,
    /// When the configuration in force was loaded, in seconds since the epoch; 0 if none is.
    loaded_at: AtomicU64,
}

/// What descriptors of a domain did not find.
#[derive(Debug, Default)]
struct DomainCounts {
    no_domain: AtomicU64,
    no_rule: AtomicU64,
}

/// What descriptors of a domain did not find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainReading {
    /// Descriptors of requests for a domain that no configuration has.
    pub domain_not_found: u64,
    /// Descriptors without a rule, in a domain that there is.
    pub rule_not_found: u64,
}

/// All counts at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsReading {
    /// Rules that were hit, by their names, sorted.
    pub rules: Vec<(StatName, RuleReading)>,
    /// Rules that were hit and are in no configuration any more, the latest last. Whoever tells what has come since it last
    /// looked needs them: a rule that comes back goes on where it was.
    pub gone: Vec<(StatName, RuleReading)>,
    /// Domains in which something was not found, sorted.
    pub domains: Vec<(String, DomainReading)>,
    /// Answers that are OK only because of the global shadow mode.
    pub global_shadow_mode: u64,
    /// Requests that failed because the store did.
    pub redis_error: u64,
    /// Requests that failed because of what they asked, or because nothing is loaded.
    pub service_error: u64,
    /// Limits of requests that were ignored, because their unit is none.
    pub ignored_limits: u64,
    /// Configurations that were loaded.
    pub config_load_success: u64,
    /// Configurations that were refused.
    pub config_load_error: u64,
    /// When the configuration in force was loaded, in seconds since the epoch.
    pub loaded_at: Option<u64>,
}

/// The counters of a configuration's rules.
#[derive(Debug, Default)]
pub(in crate::rls) struct CountedHits {
    /// By the index of the rule; none for those without a limit, and those whose names have values of requests in them.
    by_rule: Box<[Option<Arc<RuleCounts>>]>,
    /// Those of rules that are gone, the latest last. A counter never goes back, nor is what was counted lost to those who
    /// look now and then.
    gone: Vec<(StatName, Arc<RuleCounts>)>,
}

impl CountedHits {
    /// Returns counters for a configuration, which go on where those of the same name were, however long ago. So many names of
    /// rules that are gone are kept, the latest.
    pub(in crate::rls) fn new(
        config: &RateLimitConfig,
        before: Option<(&RateLimitConfig, &CountedHits)>,
    ) -> Self {
        // In the order in which they went, and those that may go now at the end.
        let mut old: Vec<(&StatName, &Arc<RuleCounts>)> = Vec::new();
        if let Some((config, counts)) = before {
            old.extend(counts.gone.iter().map(|(name, counts)| (name, counts)));
            let counted = config.rules().zip(&counts.by_rule);
            old.extend(counted.filter_map(|(rule, counts)| Some((rule.written(), counts.as_ref()?))));
        }
        let mut known: HashMap<&StatName, Arc<RuleCounts>> =
            old.iter().map(|(name, counts)| (*name, Arc::clone(counts))).collect();
        let mut in_force: HashSet<&StatName> = HashSet::new();
        let counted = config.rules().map(|rule| {
            let is_counted = !matches!(rule.rule.limit, RuleLimit::Unlimited);
            let name = rule.fixed_stat().filter(|_| is_counted)?;
            in_force.insert(name);
            Some(Arc::clone(known.entry(name).or_default()))
        });
        let by_rule = counted.collect();
        // Rules of one name share their counters.
        let mut seen = HashSet::new();
        old.retain(|(name, counts)| {
            !in_force.contains(name) && !counts.read().is_empty() && seen.insert(*name)
        });
        let surplus = old.len().saturating_sub(MOST_SERIES);
        let gone = old.into_iter().skip(surplus);
        let gone = gone.map(|(name, counts)| (name.clone(), Arc::clone(counts))).collect();
        CountedHits { by_rule, gone }
    }

    /// Returns the counters of a rule.
    #[inline]
    pub(in crate::rls) fn of_rule(&self, index: usize) -> Option<&Arc<RuleCounts>> {
        self.by_rule.get(index)?.as_ref()
    }

    fn read<'a>(&'a self, config: &'a RateLimitConfig) -> impl Iterator<Item = (&'a StatName, RuleReading)> {
        let counted = config.rules().zip(&self.by_rule);
        counted
            .filter_map(|(rule, counts)| Some((rule.written(), counts.as_ref()?)))
            // Rules of one name share their counters.
            .collect::<HashMap<_, _>>()
            .into_iter()
            .map(|(name, counts)| (name, counts.read()))
    }

    fn read_gone(&self) -> Vec<(StatName, RuleReading)> {
        self.gone.iter().map(|(name, counts)| (name.clone(), counts.read())).collect()
    }
}

impl Default for RlsCounts {
    fn default() -> Self {
        RlsCounts {
            by_value: Series::new(MOST_SERIES),
            domains: Series::new(MOST_SERIES),
            global_shadow: AtomicU64::new(0),
            store_errors: AtomicU64::new(0),
            service_errors: AtomicU64::new(0),
            ignored_limits: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            failed_loads: AtomicU64::new(0),
            loaded_at: AtomicU64::new(0),
        }
    }
}

impl RlsCounts {
    /// Returns the counters of a name that has values of requests in it.
    pub(in crate::rls) fn by_value(&self, name: &StatName) -> Arc<RuleCounts> {
        self.by_value.get(name, name.as_str().len(), || {
            let mut other = StatName::new();
            write_override_stat(
                &mut other,
                name.domain(),
                &[RlsEntry { key: OTHER.to_owned(), value: String::new() }],
            );
            other
        })
    }

    /// Counts a descriptor that found no domain.
    pub(in crate::rls) fn no_domain(&self, domain: &str) {
        self.of_domain(domain).no_domain.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a descriptor that found no rule.
    pub(in crate::rls) fn no_rule(&self, domain: &str) {
        self.of_domain(domain).no_rule.fetch_add(1, Ordering::Relaxed);
    }

    fn of_domain(&self, domain: &str) -> Arc<DomainCounts> {
        self.domains.get(domain, domain.len(), || OTHER.to_owned())
    }

    /// Counts an answer that the global shadow mode has changed.
    pub(in crate::rls) fn changed_by_shadow(&self) {
        self.global_shadow.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that failed because the store did.
    pub(in crate::rls) fn store_failed(&self) {
        self.store_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that failed for another reason.
    pub(in crate::rls) fn service_failed(&self) {
        self.service_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a limit of a request that was ignored.
    pub(in crate::rls) fn limit_ignored(&self) {
        self.ignored_limits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a configuration that was loaded.
    pub(in crate::rls) fn loaded(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.loaded_at.store(now, Ordering::Relaxed);
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a configuration that was refused.
    pub(in crate::rls) fn load_failed(&self) {
        self.failed_loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns all counts; those beside the rules are of this configuration.
    pub(in crate::rls) fn read(&self, loaded: Option<(&RateLimitConfig, &CountedHits)>) -> RlsReading {
        let mut rules: BTreeMap<String, (StatName, RuleReading)> = BTreeMap::new();
        let by_value = self.by_value.read(RuleCounts::read);
        let beside = loaded.into_iter().flat_map(|(config, counts)| counts.read(config));
        let beside = beside.map(|(name, reading)| (name.clone(), reading));
        for (name, reading) in by_value.into_iter().chain(beside).filter(|(_, reading)| !reading.is_empty()) {
            // A limit that a request brought may be counted under the name of a rule.
            let sum = rules.entry(name.as_str().to_owned()).or_insert_with(|| (name, RuleReading::default()));
            sum.1 = sum.1.plus(reading);
        }
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut domains = self.domains.read(|counts| DomainReading {
            domain_not_found: read(&counts.no_domain),
            rule_not_found: read(&counts.no_rule),
        });
        domains.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        RlsReading {
            rules: rules.into_values().collect(),
            gone: loaded.map(|(_, counts)| counts.read_gone()).unwrap_or_default(),
            domains,
            global_shadow_mode: read(&self.global_shadow),
            redis_error: read(&self.store_errors),
            service_error: read(&self.service_errors),
            ignored_limits: read(&self.ignored_limits),
            config_load_success: read(&self.loads),
            config_load_error: read(&self.failed_loads),
            loaded_at: Some(read(&self.loaded_at)).filter(|at| *at > 0),
        }
    }
}
