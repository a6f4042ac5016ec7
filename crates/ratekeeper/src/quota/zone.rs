//! Time zones: UTC, and those of the IANA database if they are built in.

use std::fmt;

use jiff::tz::TimeZone;

use super::error::QuotaError;

/// A time zone. UTC is always available; named zones need the feature `timezones`.
///
/// A small value to be copied: each named zone is loaded once and kept for the life of the process, and there are only as
/// many as the time zone database knows.
#[derive(Clone, Copy)]
pub struct Zone(Option<&'static NamedZone>);

impl Zone {
    /// Coordinated universal time (UTC), which needs no feature.
    pub const UTC: Zone = Zone(None);

    /// Returns the zone of this name in the IANA time zone database, such as `Europe/Berlin`.
    ///
    /// # Errors
    ///
    /// If there is no such zone, or it is not UTC and the feature `timezones` is not enabled.
    pub fn named(name: &str) -> Result<Self, QuotaError> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Zone::UTC);
        }
        #[cfg(feature = "timezones")]
        return find(name).map(|zone| Zone(Some(zone)));
        #[cfg(not(feature = "timezones"))]
        Err(QuotaError::syntax(
            "zone",
            name,
            "only UTC is built in: enable the feature `timezones` for the others",
        ))
    }

    /// Returns the zone's name in the IANA time zone database, or `UTC`.
    pub fn name(&self) -> &str {
        self.0.map_or("UTC", |zone| zone.name)
    }

    /// Returns true for UTC, in which all days are equally long.
    pub(super) fn is_utc(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the zone's offsets from UTC, and when they change.
    pub(super) fn rules(&self) -> &'static TimeZone {
        static UTC: TimeZone = TimeZone::UTC;
        self.0.map_or(&UTC, |zone| &zone.rules)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl std::hash::Hash for Zone {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A zone of the database.
struct NamedZone {
    name: &'static str,
    rules: TimeZone,
}

/// Returns the zone of this name, loaded once per process. Only names that the database knows are kept, so what is leaked
/// is bounded by the size of the database.
#[cfg(feature = "timezones")]
fn find(name: &str) -> Result<&'static NamedZone, QuotaError> {
    use std::collections::HashMap;
    use std::sync::{Mutex, OnceLock, PoisonError};

    static KNOWN: OnceLock<Mutex<HashMap<String, &'static NamedZone>>> = OnceLock::new();
    let remedy = "a zone is a name of the IANA time zone database, such as `Europe/Berlin`";
    let rules = TimeZone::get(name).map_err(|_| QuotaError::syntax("zone", name, remedy))?;
    let canonical = rules.iana_name().unwrap_or(name).to_string();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let zone = known.entry(canonical).or_insert_with_key(|name| {
        let name: &'static str = Box::leak(name.clone().into_boxed_str());
        Box::leak(Box::new(NamedZone { name, rules }))
    });
    Ok(*zone)
}

#[cfg(all(test, feature = "timezones"))]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_loaded_once_whatever_its_spelling() {
        let (one, other) = (find("Europe/Berlin").unwrap(), find("europe/berlin").unwrap());
        assert!(std::ptr::eq(one, other));
        assert!(Zone::named("Mars/Olympus").unwrap_err().to_string().contains("Europe/Berlin"));
    }
}
