//! What is asked of the console, behind the `?` of its paths and in its one body.

use serde::Deserialize;

use super::body::{FieldKind, JsonBody};
use super::problem::Problem;
use super::query::{PlusMeaning, QueryFields, decoded, wrong};
use crate::console::{AskedPlans, HistoryQuery, KeyQuery, MOST_LOOKED_AT, Resolution};
use crate::request::RequestLimits;

/// The most points that are asked for: more than there can be.
const MOST_POINTS: u64 = 1_440;

/// `POST /v1/try`: a limit, and the plan whose requests it is tried on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TryBody {
    pub(super) limit: String,
    pub(super) plan: Option<String>,
}

impl JsonBody for TryBody {
    const FIELDS: &'static [(&'static str, FieldKind)] =
        &[("limit", FieldKind::Text), ("plan", FieldKind::Text)];
}

/// Makes sure that nothing is asked for.
pub(super) fn nothing(query: Option<&str>) -> Result<(), Problem> {
    QueryFields::read(query, &[], &[]).map(drop)
}

/// Reads `resolution=1s&last=60&plans=free,pro&transports=true`.
pub(super) fn history_query(query: Option<&str>) -> Result<HistoryQuery, Problem> {
    let mut fields = QueryFields::read(query, &["resolution", "last", "plans", "transports"], &[])?;
    let resolution = match fields.text("resolution")?.as_deref() {
        None | Some("1s") => Resolution::Second,
        Some("1m") => Resolution::Minute,
        Some(_) => return Err(wrong("resolution", "must be 1s or 1m")),
    };
    let last = fields.number("last", MOST_POINTS)?.and_then(|last| usize::try_from(last).ok());
    let plans = match fields.text("plans")?.as_deref() {
        None => AskedPlans::None,
        Some("all") => AskedPlans::All,
        Some("") => return Err(wrong("plans", "empty; name plans, or `all`")),
        Some(names) if names.split(',').count() > MOST_LOOKED_AT => {
            return Err(wrong(
                "plans",
                &format!("at most {MOST_LOOKED_AT} are told of; name fewer, or `all`"),
            ));
        }
        Some(names) => AskedPlans::Named(names.split(',').map(str::to_owned).collect()),
    };
    Ok(HistoryQuery { resolution, last, plans, transports: fields.flag("transports")? })
}

/// Reads `after=17`.
pub(super) fn events_after(query: Option<&str>) -> Result<u64, Problem> {
    let after = QueryFields::read(query, &["after"], &[])?.number("after", u64::from(u32::MAX))?;
    Ok(after.unwrap_or(0))
}

/// Reads the last part of a path and `plan=free&plan=pro&quota=10%2Fs`: a key, and what is asked of it.
pub(super) fn key_query(
    path: &str,
    query: Option<&str>,
    limits: &RequestLimits,
) -> Result<(Vec<u8>, KeyQuery), Problem> {
    let mut fields = QueryFields::read(query, &["key", "quota"], &["plan"])?;
    let key = key_of(path, &mut fields)?;
    let plans = fields.texts("plan")?;
    if plans.len() > MOST_LOOKED_AT {
        return Err(wrong(
            "plan",
            &format!("{} of them; at most {MOST_LOOKED_AT} are looked at", plans.len()),
        ));
    }
    let quota = fields.text("quota")?.map(|text| limits.parse(&text)).transpose()?;
    Ok((key, KeyQuery { plans, quota }))
}

/// Reads the last part of a path and `plan=free&plan=pro`: a key, and the plans under which it is forgotten.
pub(super) fn reset_query(path: &str, query: Option<&str>) -> Result<(Vec<u8>, Vec<String>), Problem> {
    let mut fields = QueryFields::read(query, &["key"], &["plan"])?;
    Ok((key_of(path, &mut fields)?, fields.texts("plan")?))
}

/// Returns the key of the path, or that of the field `key`: browsers take `.` and `..` for steps in a path, however they are
/// encoded.
fn key_of(path: &str, fields: &mut QueryFields<'_>) -> Result<Vec<u8>, Problem> {
    match (path, fields.take("key")) {
        ("", Some(key)) => Ok(key),
        (_, Some(_)) => Err(wrong("key", "named twice; say it in the path, or behind the `?`")),
        (path, None) => decoded("key", path, PlusMeaning::Plus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_asked_for_by_its_fields() {
        assert_eq!(history_query(None).unwrap(), HistoryQuery::default());
        let asked = history_query(Some("resolution=1m&last=60&plans=a,b&transports=true")).unwrap();
        let plans = AskedPlans::Named(vec!["a".to_owned(), "b".to_owned()]);
        let expected =
            HistoryQuery { resolution: Resolution::Minute, last: Some(60), plans, transports: true };
        assert_eq!(asked, expected);
        assert_eq!(history_query(Some("plans=all")).unwrap().plans, AskedPlans::All);
        for wrong in
            ["resolution=2s", "last=x", "last=1441", "plans=", "transports=1", "since=1", "last=1&last=2"]
        {
            assert!(history_query(Some(wrong)).is_err(), "{wrong}");
        }
        let many = |count: usize| format!("plans=a{}", ",a".repeat(count - 1));
        assert!(history_query(Some(&many(64))).is_ok() && history_query(Some(&many(65))).is_err());
    }
}
