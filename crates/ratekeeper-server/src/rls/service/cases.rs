//! What applies to the descriptors of a request.

use ratekeeper::Rules;
use ratekeeper::port::{ChargeAction, Plans, Request};
use ratekeeper_redis::EnvoyproxyStore;

use super::applied::{Applied, AppliedLimit, Case, Shared};
use super::loaded::LoadedConfig;
use super::plan_cache::PlanCache;
use crate::rls::asked::{RlsDescriptor, RlsRequest};
use crate::rls::counting::RlsCounts;
use crate::rls::error::RlsError;
use crate::rls::matching::{
    Found, FoundRule, SharedLevels, StatName, write_counter_key, write_envoyproxy_key, write_override_stat,
};
use crate::rls::rule::{LimitPlan, Limited, RuleLimit, ToldLimit, usual_over};
use crate::rls::unit::LimitUnit;
use crate::settings::{RedisLayout, RlsSettings};
use crate::watch::LogThrottle;

/// Bytes that most keys need.
const USUAL_KEY: usize = 64;

static IGNORED_LOG: LogThrottle = LogThrottle::each_minute();

/// The descriptors of a request, each with what applies to it.
#[derive(Debug)]
pub(super) struct Cases<'a> {
    pub(super) each: Vec<Case<'a>>,
    /// The keys of all of them, one after another.
    pub(super) keys: Vec<u8>,
}

/// What cases are made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseMaker<'a> {
    pub(super) settings: &'a RlsSettings,
    /// None if nothing was loaded yet.
    pub(super) loaded: Option<&'a LoadedConfig>,
    pub(super) counts: &'a RlsCounts,
    pub(super) cache: &'a PlanCache,
    pub(super) plans: &'a dyn Plans,
    /// Whether what is not found is counted: not if somebody only looks.
    pub(super) is_counted: bool,
}

/// What a descriptor is held to, before it is known whether another replaces it.
#[derive(Clone, Copy)]
enum HeldBy<'a> {
    Nothing,
    Rule(FoundRule<'a>),
    Brought(u32, LimitUnit),
}

impl<'a> CaseMaker<'a> {
    /// Returns what applies to the descriptors of a request.
    pub(super) fn cases(self, request: &'a RlsRequest) -> Result<Cases<'a>, RlsError> {
        check(request)?;
        let loaded = self.loaded.ok_or(RlsError::NotLoaded)?;
        let mut cases = Cases { each: Vec::with_capacity(request.descriptors.len()), keys: Vec::new() };
        match &*request.descriptors {
            // Nothing that one descriptor finds could replace it: a rule does not replace itself.
            [only] => {
                let held_by = self.held_by(loaded, request, only);
                cases.each.push(self.case(request, only, held_by, &mut cases.keys)?);
            }
            several => {
                let mut held: Vec<_> =
                    several.iter().map(|descriptor| self.held_by(loaded, request, descriptor)).collect();
                drop_replaced(&mut held);
                for (descriptor, held_by) in several.iter().zip(held) {
                    cases.each.push(self.case(request, descriptor, held_by, &mut cases.keys)?);
                }
            }
        }
        Ok(cases)
    }

    fn held_by(
        self,
        loaded: &'a LoadedConfig,
        request: &RlsRequest,
        descriptor: &RlsDescriptor,
    ) -> HeldBy<'a> {
        let found = loaded.config.find(&request.domain, &descriptor.entries);
        if let (Some(brought), false) = (descriptor.limit, matches!(found, Found::NoDomain)) {
            match LimitUnit::of_number(brought.unit) {
                Some(unit) => return HeldBy::Brought(brought.requests_per_unit, unit),
                None => self.ignored(brought.unit),
            }
        }
        match found {
            Found::NoDomain | Found::NoRule if !self.is_counted => HeldBy::Nothing,
            Found::NoDomain => {
                self.counts.no_domain(&request.domain);
                HeldBy::Nothing
            }
            Found::NoRule => {
                self.counts.no_rule(&request.domain);
                HeldBy::Nothing
            }
            Found::Rule(rule) => HeldBy::Rule(rule),
        }
    }

    #[cold]
    fn ignored(self, unit: i32) {
        self.counts.limit_ignored();
        if let Some(skipped) = IGNORED_LOG.is_due() {
            tracing::warn!(unit, skipped, "rls: limit of a request ignored: its unit is none (1 to 7 are)");
        }
    }

    fn case(
        self,
        request: &'a RlsRequest,
        descriptor: &'a RlsDescriptor,
        held_by: HeldBy<'a>,
        keys: &mut Vec<u8>,
    ) -> Result<Case<'a>, RlsError> {
        let mut case = Case {
            applied: Applied::Nothing,
            hits: hits(request, descriptor),
            is_negative: descriptor.is_negative,
            is_quota: self.settings.is_quota,
            is_shadow: false,
            name: "",
            metadata: None,
            counts: None,
        };
        match held_by {
            HeldBy::Nothing => {}
            HeldBy::Brought(count, unit) => self.bring(&mut case, request, descriptor, (count, unit), keys),
            HeldBy::Rule(found) => self.apply(&mut case, request, descriptor, found, keys)?,
        }
        // What is unlimited counts neither as a quota rule nor as another.
        case.is_quota &= !matches!(case.applied, Applied::Unlimited);
        Ok(case)
    }

    /// A limit that the request brings: a fixed window without a name.
    fn bring(
        self,
        case: &mut Case<'a>,
        request: &RlsRequest,
        descriptor: &RlsDescriptor,
        (requests_per_unit, unit): (u32, LimitUnit),
        keys: &mut Vec<u8>,
    ) {
        case.applied = match requests_per_unit {
            0 => Applied::Banned(unit),
            _ => {
                let mode = self.settings.on_store_error;
                // Every number of every unit is a quota.
                let Some(plan) = self.cache.brought(requests_per_unit, unit, mode) else { return };
                let told = ToldLimit::AsWritten { requests_per_unit, unit: Some(unit) };
                let limited = AppliedLimit {
                    plan: Shared::Counted(plan),
                    action: action(case.is_negative, self.settings.over),
                    told,
                    key: 0..0,
                };
                Applied::Limited(self.keyed(limited, request, descriptor, &[], keys))
            }
        };
        if self.is_counted {
            let mut name = StatName::new();
            write_override_stat(&mut name, &request.domain, &descriptor.entries);
            case.counts = Some(Shared::Counted(self.counts.by_value(&name)));
        }
    }

    /// A rule of the configuration.
    fn apply(
        self,
        case: &mut Case<'a>,
        request: &RlsRequest,
        descriptor: &RlsDescriptor,
        found: FoundRule<'a>,
        keys: &mut Vec<u8>,
    ) -> Result<(), RlsError> {
        let rule = found.rule;
        (case.is_shadow, case.name) = (rule.is_shadow, &rule.name);
        case.is_quota |= rule.is_quota;
        case.metadata = rule.metadata.as_deref();
        case.applied = match &rule.limit {
            RuleLimit::Unlimited => {
                case.applied = Applied::Unlimited;
                return Ok(());
            }
            RuleLimit::Banned(unit) => Applied::Banned(*unit),
            RuleLimit::Limited(limited) => {
                let limited = self.limited(limited, case.is_negative, found)?;
                Applied::Limited(self.keyed(limited, request, descriptor, found.shared, keys))
            }
        };
        if self.is_counted {
            case.counts = Some(match self.loaded.and_then(|loaded| loaded.counts.of_rule(rule.index)) {
                Some(counts) => Shared::Borrowed(counts),
                None => {
                    let mut name = StatName::new();
                    found.write_stat(&mut name, &descriptor.entries);
                    Shared::Counted(self.counts.by_value(&name))
                }
            });
        }
        Ok(())
    }

    fn limited(
        self,
        limited: &'a Limited,
        is_negative: bool,
        found: FoundRule<'a>,
    ) -> Result<AppliedLimit<'a>, RlsError> {
        let plan = match &limited.plan {
            LimitPlan::Own(plan) => Shared::Borrowed(&**plan),
            LimitPlan::Named(name) => {
                let plan = self.plans.find(name).ok_or_else(|| RlsError::UnknownPlan {
                    plan: name.clone(),
                    rule: found.written().to_string(),
                })?;
                Shared::Counted(self.cache.named(plan, limited.on_store_error))
            }
        };
        let over = limited.over.unwrap_or_else(|| usual_over(&plan, self.settings.over));
        Ok(AppliedLimit { plan, action: action(is_negative, over), told: limited.told, key: 0..0 })
    }

    /// Writes the key that a limit is counted under.
    fn keyed(
        self,
        limited: AppliedLimit<'a>,
        request: &RlsRequest,
        descriptor: &RlsDescriptor,
        shared: &SharedLevels,
        keys: &mut Vec<u8>,
    ) -> AppliedLimit<'a> {
        let start = keys.len();
        keys.reserve(USUAL_KEY);
        let is_theirs = self.settings.redis_layout == RedisLayout::Envoyproxy
            && EnvoyproxyStore::is_counter(Rules::Plan(&limited.plan));
        let write = if is_theirs { write_envoyproxy_key } else { write_counter_key };
        write(keys, &request.domain, &descriptor.entries, shared);
        AppliedLimit { key: start..keys.len(), ..limited }
    }
}

fn check(request: &RlsRequest) -> Result<(), RlsError> {
    if request.domain.is_empty() {
        return Err(RlsError::EmptyDomain);
    }
    match request.descriptors.len() {
        0 => return Err(RlsError::NoDescriptors),
        1..=RlsRequest::MAX_DESCRIPTORS => {}
        sent => return Err(RlsError::TooManyDescriptors { sent }),
    }
    let too_long = |descriptor: &RlsDescriptor| descriptor.entries.len() > RlsDescriptor::MAX_ENTRIES;
    match request.descriptors.iter().position(too_long) {
        Some(descriptor) => {
            let sent = request.descriptors[descriptor].entries.len();
            Err(RlsError::TooManyEntries { descriptor, sent })
        }
        None => Ok(()),
    }
}

/// Drops every rule whose name another one says it replaces; two that replace each other are both dropped.
fn drop_replaced(held: &mut [HeldBy<'_>]) {
    let replaces =
        |held_by: &HeldBy<'_>| matches!(held_by, HeldBy::Rule(found) if !found.rule.replaces.is_empty());
    if !held.iter().any(replaces) {
        return;
    }
    let all = held.to_vec();
    let is_replaced = |name: &str| {
        all.iter().any(|other| matches!(other, HeldBy::Rule(found) if found.rule.replaces.iter().any(|replaced| replaced == name)))
    };
    for held_by in held {
        if let HeldBy::Rule(found) = held_by
            && !found.rule.name.is_empty()
            && is_replaced(&found.rule.name)
        {
            *held_by = HeldBy::Nothing;
        }
    }
}

/// Returns how many hits a descriptor is: what it says, or what the request says, which is at least 1. More than any store can
/// count is as much as it can.
fn hits(request: &RlsRequest, descriptor: &RlsDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or_else(|| u64::from(request.hits_addend.max(1))).min(Request::MOST)
}

fn action(is_negative: bool, over: ChargeAction) -> ChargeAction {
    if is_negative { ChargeAction::GiveBack } else { over }
}
