//! Where counters are sent: `USE_STATSD`, `STATSD_*`, `EXTRA_TAGS`.

use std::time::Duration;

use ratekeeper_server::{StatsdFamily, StatsdProtocol, StatsdSettings};

use super::variables::{VariableError, Variables};

const PORT: u16 = 8125;
const EVERY: Duration = Duration::from_secs(10);

/// Returns where counters are sent; none unless a variable asks for it. The Go service sends them to this machine unless it
/// is told not to, which most who run it never noticed: nobody listens there.
pub(super) fn statsd(variables: &Variables) -> Result<Option<StatsdSettings>, VariableError> {
    let is_wanted = match variables.given("USE_STATSD") {
        Some(_) => variables.bool("USE_STATSD")?,
        None => variables.text("STATSD_HOST").or(variables.text("STATSD_PORT")).is_some(),
    };
    if !is_wanted || variables.bool("DISABLE_STATS")? || variables.bool("USE_DOG_STATSD")? {
        return Ok(None);
    }
    let (protocol, family) = match variables.text("STATSD_PROTOCOL") {
        None | Some("tcp") => (StatsdProtocol::Tcp, StatsdFamily::Any),
        Some("tcp4") => (StatsdProtocol::Tcp, StatsdFamily::V4),
        Some("tcp6") => (StatsdProtocol::Tcp, StatsdFamily::V6),
        Some("udp") => (StatsdProtocol::Udp, StatsdFamily::Any),
        Some("udp4") => (StatsdProtocol::Udp, StatsdFamily::V4),
        Some("udp6") => (StatsdProtocol::Udp, StatsdFamily::V6),
        Some(other) => return Err(VariableError::quoting("STATSD_PROTOCOL", other, "write `tcp` or `udp`")),
    };
    let port = variables.number("STATSD_PORT", "write a port from 1 to 65535")?.unwrap_or(PORT);
    if port == 0 {
        return Err(VariableError::quoting("STATSD_PORT", "0", "write a port from 1 to 65535"));
    }
    let every = variables.duration("STATS_FLUSH_INTERVAL")?.unwrap_or(EVERY);
    if every.is_zero() {
        return Err(VariableError::new("STATS_FLUSH_INTERVAL", "0; write a duration such as `10s`"));
    }
    Ok(Some(StatsdSettings {
        host: variables.text("STATSD_HOST").unwrap_or("localhost").to_owned(),
        port,
        protocol,
        family,
        every,
        tags: tags(variables)?,
    }))
}

/// `k:v,k:v`, as Go writes maps in variables.
fn tags(variables: &Variables) -> Result<Vec<(String, String)>, VariableError> {
    let Some(text) = variables.text("EXTRA_TAGS") else { return Ok(Vec::new()) };
    let pairs = text.split(',').map(|pair| pair.split_once(':'));
    let pairs = pairs.map(|pair| pair.map(|(key, value)| (key.to_owned(), value.to_owned())));
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| VariableError::quoting("EXTRA_TAGS", text, "write `key:value,key:value`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<const N: usize>(pairs: [(&str, &str); N]) -> Result<Option<StatsdSettings>, String> {
        statsd(&pairs.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn counters_are_sent_only_if_somebody_asked_for_it() {
        let usual = StatsdSettings {
            host: "localhost".to_owned(),
            port: 8125,
            protocol: StatsdProtocol::Tcp,
            family: StatsdFamily::Any,
            every: Duration::from_secs(10),
            tags: Vec::new(),
        };
        assert_eq!(read([]), Ok(None));
        assert_eq!(read([("USE_STATSD", "false"), ("STATSD_HOST", "h")]), Ok(None));
        assert_eq!(read([("USE_STATSD", "true"), ("DISABLE_STATS", "true")]), Ok(None));
        assert_eq!(read([("USE_STATSD", "true")]), Ok(Some(usual.clone())));
        let host = StatsdSettings { host: "h".to_owned(), ..usual.clone() };
        assert_eq!(read([("STATSD_HOST", "h")]), Ok(Some(host)));
        let all = StatsdSettings {
            port: 9,
            protocol: StatsdProtocol::Udp,
            family: StatsdFamily::V6,
            every: Duration::from_secs(5),
            tags: vec![("env".to_owned(), "prod".to_owned()), ("a".to_owned(), "b:c".to_owned())],
            ..usual
        };
        let pairs = [
            ("STATSD_PORT", "9"),
            ("STATSD_PROTOCOL", "udp6"),
            ("STATS_FLUSH_INTERVAL", "5s"),
            ("EXTRA_TAGS", "env:prod,a:b:c"),
        ];
        assert_eq!(read(pairs), Ok(Some(all)));
    }

    #[test]
    fn mistakes_name_the_variable_and_what_is_right() {
        for (name, value, expected) in [
            ("STATSD_PORT", "80000", "STATSD_PORT: \"80000\"; write a port"),
            ("STATSD_PORT", "0", "STATSD_PORT: \"0\"; write a port from 1 to 65535"),
            ("STATSD_PROTOCOL", "unix", "STATSD_PROTOCOL: \"unix\"; write `tcp` or `udp`"),
            ("STATS_FLUSH_INTERVAL", "0", "STATS_FLUSH_INTERVAL: 0; write a duration"),
            ("EXTRA_TAGS", "env", "EXTRA_TAGS: \"env\"; write `key:value"),
        ] {
            let said = read([("USE_STATSD", "1"), (name, value)]).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
