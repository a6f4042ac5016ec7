//! Header fields and body of an answer.

use std::time::Duration;

use ratekeeper::port::ChargeStanding;
use ratekeeper_http::headers::{LimitName, LimitStatus, MAX_ENTRIES, PolicyField, QuotaPolicy, emit};
use serde_json::json;

use super::applied::{Applied, Case};
use super::cases::Cases;
use super::status::binding;
use crate::rls::answer::{DescriptorStatus, RlsAnswer, RlsCode};
use crate::settings::{RlsHeaders, RlsSettings};

/// The draft's type of problem for a quota that is used up.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const TITLE: &str = "Request cannot be satisfied as assigned quota has been exceeded";

impl RlsAnswer {
    /// Adds the header fields and the body that the settings ask for.
    pub(super) fn furnish(
        &mut self,
        settings: &RlsSettings,
        cases: &Cases<'_>,
        standings: &[ChargeStanding],
    ) {
        let is_refused = self.overall == RlsCode::OverLimit;
        match &settings.headers {
            RlsHeaders::Off => {}
            RlsHeaders::Plain { limit, remaining, reset } => {
                if let Some(status) = decisive(&cases.each, &self.statuses)
                    && let Some(current) = &status.current_limit
                {
                    let fields = [
                        (limit, u64::from(current.requests_per_unit)),
                        (remaining, status.limit_remaining.into()),
                        (reset, status.until_reset.unwrap_or_default()),
                    ];
                    self.response_headers
                        .extend(fields.map(|(name, value)| (name.clone(), value.to_string())));
                }
            }
            RlsHeaders::Ietf => {
                let policies = policies(cases, standings, &self.statuses);
                self.response_headers.extend(ietf(&policies));
                if is_refused {
                    self.response_headers.push((
                        "Retry-After".to_owned(),
                        retry_after(&cases.each, &self.statuses).to_string(),
                    ));
                }
            }
        }
        if is_refused && settings.has_problem_body {
            let policies = policies(cases, standings, &self.statuses);
            let violated: Vec<&str> =
                policies.iter().filter(|policy| policy.refuses).map(|policy| &*policy.name).collect();
            let body = json!({ "type": QUOTA_EXCEEDED, "title": TITLE, "status": 429, "violated-policies": violated });
            self.body = body.to_string().into_bytes();
            self.response_headers.push(("Content-Type".to_owned(), "application/problem+json".to_owned()));
        }
    }
}

/// Returns the status that plain header fields tell of: the last one that refuses by itself, else the first with least left.
fn decisive<'s>(cases: &[Case<'_>], statuses: &'s [DescriptorStatus]) -> Option<&'s DescriptorStatus> {
    let refuses =
        |case: &Case<'_>, status: &DescriptorStatus| status.code == RlsCode::OverLimit && !case.is_quota;
    let refusing = cases.iter().zip(statuses).rfind(|(case, status)| refuses(case, status));
    let least = || {
        statuses
            .iter()
            .filter(|status| status.current_limit.is_some())
            .min_by_key(|status| status.limit_remaining)
    };
    refusing.map(|(_, status)| status).or_else(least)
}

/// Returns how long whoever is refused has to wait: until all that refuse by themselves have room, and one of those that refuse
/// together, if they do.
fn retry_after(cases: &[Case<'_>], statuses: &[DescriptorStatus]) -> u64 {
    let waits = |is_quota: bool| {
        let of_kind = cases.iter().zip(statuses).filter(move |(case, _)| case.is_quota == is_quota);
        of_kind
            .filter(|(_, status)| status.code == RlsCode::OverLimit)
            .filter_map(|(_, status)| status.until_reset)
    };
    let together = if quota_refuses(cases, statuses) { waits(true).min() } else { None };
    waits(false).max().max(together).unwrap_or(1).max(1)
}

/// Returns true if the quota rules refuse: all of them are over.
fn quota_refuses(cases: &[Case<'_>], statuses: &[DescriptorStatus]) -> bool {
    let is_over =
        |(case, status): (&Case<'_>, &DescriptorStatus)| !case.is_quota || status.code == RlsCode::OverLimit;
    cases.iter().zip(statuses).all(is_over)
}

/// A limit as a policy of the draft.
struct StatusPolicy<'a> {
    name: String,
    window: Duration,
    quota: u64,
    status: &'a DescriptorStatus,
    /// Whether it has a part in that the whole is refused.
    refuses: bool,
}

/// Returns the policies of all statuses that have a limit, each with a name of its own.
fn policies<'a>(
    cases: &Cases<'_>,
    standings: &[ChargeStanding],
    statuses: &'a [DescriptorStatus],
) -> Vec<StatusPolicy<'a>> {
    let mut policies: Vec<StatusPolicy<'a>> = Vec::new();
    let mut standings = standings.iter();
    let quota_refuses = quota_refuses(&cases.each, statuses);
    for (case, status) in cases.each.iter().zip(statuses) {
        let (unit, window) = match &case.applied {
            Applied::Nothing | Applied::Unlimited => continue,
            Applied::Banned(unit) => (unit.word(), unit.length()),
            Applied::Limited(limited) => {
                let rule = standings.next().and_then(|standing| binding(&limited.plan, &standing.decision));
                let Some(rule) = rule else { continue };
                (rule.name().as_str(), rule.quota().period())
            }
        };
        let Some(current) = &status.current_limit else { continue };
        if policies.len() == MAX_ENTRIES {
            break;
        }
        let name = if LimitName::new(case.name).is_ok() { case.name } else { unit };
        policies.push(StatusPolicy {
            name: unused(&policies, name),
            window: window.as_duration(),
            quota: current.requests_per_unit.into(),
            status,
            refuses: status.code == RlsCode::OverLimit && (quota_refuses || !case.is_quota),
        });
    }
    policies
}

/// Returns the name, or with a number if another policy has it.
fn unused(policies: &[StatusPolicy<'_>], name: &str) -> String {
    let is_taken = |name: &str| policies.iter().any(|policy| policy.name == name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

fn ietf(policies: &[StatusPolicy<'_>]) -> Vec<(String, String)> {
    let written: Vec<QuotaPolicy> = policies
        .iter()
        .map(|policy| QuotaPolicy::new(&*policy.name, policy.quota).window(policy.window))
        .collect();
    // Without a limit there is nothing to tell of.
    let Ok(field) = PolicyField::new(&written) else { return Vec::new() };
    let statuses: Vec<LimitStatus<'_>> = policies
        .iter()
        .zip(field.names())
        .map(|(policy, name)| LimitStatus {
            name,
            limit: policy.quota,
            remaining: policy.status.limit_remaining.into(),
            reset: policy.status.until_reset.map(Duration::from_secs),
        })
        .collect();
    let fields =
        [("RateLimit-Policy", Some(field.value().clone())), ("RateLimit", emit::rate_limit(&statuses))];
    let text = |value: http::HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), text(value?)))).collect()
}
