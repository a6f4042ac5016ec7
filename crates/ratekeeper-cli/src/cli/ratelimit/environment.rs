//! All settings, from the variables of the Go service.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use ratekeeper_server::config::{LogFormat, LogLevel};
use ratekeeper_server::rls::RedisLayout;
use ratekeeper_server::{QuotaBounds, RequestLimits, SettingNames, Settings, StoreLocation};

use super::unused::{UnusedVariables, unused};
use super::variables::{VariableError, Variables};
use super::{listeners, redis, service, statsd};

/// What an environment amounts to.
#[derive(Debug)]
pub(super) struct RatelimitEnvironment {
    pub(super) settings: Settings,
    pub(super) log_level: LogLevel,
    pub(super) log_format: LogFormat,
    pub(super) unused: Vec<UnusedVariables>,
}

/// Returns the settings that these variables amount to, or the first mistake. Asks nobody but for the names of hosts.
pub(super) fn read(
    variables: &Variables,
    layout: RedisLayout,
) -> Result<RatelimitEnvironment, VariableError> {
    let store = redis::store(variables)?;
    if layout == RedisLayout::Envoyproxy && store == StoreLocation::Memory {
        let message = "missing; --redis-layout envoyproxy shares counters in a Redis";
        return Err(VariableError::new("REDIS_URL", message));
    }
    let redis = redis::settings(variables, &store)?;
    let (grpc, grpc_socket) = listeners::grpc(variables)?;
    // The port is open to all: nobody shall bring limits of their own, which would take room in the store.
    let bounds = QuotaBounds { plans_only: true, ..QuotaBounds::default() };
    let settings = Settings {
        http: Some(listeners::http(variables)?),
        grpc,
        grpc_socket,
        debug: Some(listeners::debug(variables)?),
        prometheus: listeners::prometheus(variables)?,
        grpc_tls: listeners::grpc_tls(variables)?,
        grpc_age: listeners::grpc_age(variables)?,
        rls: Some(service::service(variables, layout)?),
        statsd: statsd::statsd(variables)?,
        loops: available_parallelism().map_or(1, NonZeroUsize::get),
        limits: RequestLimits { bounds, ..RequestLimits::default() },
        names: SettingNames::Variables,
        store,
        redis,
        ..Settings::default()
    };
    Ok(RatelimitEnvironment {
        settings,
        log_level: log_level(variables)?,
        log_format: log_format(variables),
        unused: unused(variables)?,
    })
}

/// Warnings and worse are logged unless set otherwise, as there.
fn log_level(variables: &Variables) -> Result<LogLevel, VariableError> {
    let name = "LOG_LEVEL";
    let Some(word) = variables.text(name) else { return Ok(LogLevel::Warn) };
    Ok(match word.to_ascii_lowercase().as_str() {
        "panic" | "fatal" | "error" => LogLevel::Error,
        "warn" | "warning" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        "trace" => LogLevel::Trace,
        _ => {
            let right = "write `error`, `warn`, `info`, `debug` or `trace`";
            return Err(VariableError::quoting(name, word, right));
        }
    })
}

fn log_format(variables: &Variables) -> LogFormat {
    match variables.text("LOG_FORMAT") {
        Some(word) if word.eq_ignore_ascii_case("json") => LogFormat::Json,
        _ => LogFormat::Text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratekeeper_server::{ConnectionAge, GrpcTls, TlsFiles};

    use super::*;

    fn read<const N: usize>(pairs: [(&str, &str); N]) -> Result<RatelimitEnvironment, String> {
        super::read(&pairs.into(), RedisLayout::Own).map_err(|error| error.to_string())
    }

    #[test]
    fn without_variables_it_listens_where_the_go_service_does() {
        let all = read([]).unwrap();
        let settings = all.settings;
        assert_eq!(settings.http.unwrap().address.to_string(), "0.0.0.0:8080");
        assert_eq!(settings.grpc.unwrap().address.to_string(), "0.0.0.0:8081");
        assert_eq!(settings.debug.unwrap().address.to_string(), "0.0.0.0:6070");
        assert!(settings.resp.is_none() && settings.msgpack.is_none() && settings.prometheus.is_none());
        assert_eq!((settings.store, settings.grpc_tls), (StoreLocation::Memory, None));
        let age = ConnectionAge { age: Duration::from_secs(86_400), grace: Duration::from_secs(3_600) };
        assert_eq!(settings.grpc_age, Some(age));
        assert!(settings.limits.bounds.plans_only && settings.rls.is_some());
        assert_eq!((all.log_level, all.log_format), (LogLevel::Warn, LogFormat::Text));
        assert!(all.unused.is_empty());
    }

    #[test]
    fn every_listener_moves() {
        let settings = read([
            ("HOST", "127.0.0.1"),
            ("PORT", "0"),
            ("GRPC_HOST", "::1"),
            ("GRPC_PORT", "9"),
            ("DEBUG_HOST", ""),
            ("DEBUG_PORT", "7"),
            ("USE_PROMETHEUS", "true"),
            ("PROMETHEUS_ADDR", "[::1]:9"),
            ("PROMETHEUS_PATH", "/m"),
            ("GRPC_MAX_CONNECTION_AGE", "1m30s"),
            ("GRPC_MAX_CONNECTION_AGE_GRACE", "0"),
        ]);
        let settings = settings.unwrap().settings;
        assert_eq!(settings.http.unwrap().address.to_string(), "127.0.0.1:0");
        assert_eq!(settings.grpc.unwrap().address.to_string(), "[::1]:9");
        assert_eq!(settings.debug.unwrap().address.to_string(), "0.0.0.0:7");
        let prometheus = settings.prometheus.unwrap();
        assert_eq!(
            (prometheus.endpoint.address.to_string().as_str(), prometheus.path.as_str()),
            ("[::1]:9", "/m")
        );
        let age = ConnectionAge { age: Duration::from_secs(90), grace: Duration::ZERO };
        assert_eq!(settings.grpc_age, Some(age));
        assert_eq!(read([("GRPC_MAX_CONNECTION_AGE", "0")]).unwrap().settings.grpc_age, None);
        let usual = read([("USE_PROMETHEUS", "true")]).unwrap().settings.prometheus.unwrap();
        assert_eq!(
            (usual.endpoint.address.to_string().as_str(), usual.path.as_str()),
            ("0.0.0.0:9090", "/metrics")
        );
        let socket = read([("GRPC_UDS", "/tmp/a.sock"), ("GRPC_PORT", "nobody looks")]).unwrap().settings;
        assert_eq!((socket.grpc, socket.grpc_socket), (None, Some("/tmp/a.sock".into())));
    }

    #[test]
    fn grpc_alone_is_encrypted() {
        let tls = read([
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "c"),
            ("GRPC_SERVER_TLS_KEY", "k"),
            ("GRPC_CLIENT_TLS_CACERT", "ca"),
            ("GRPC_CLIENT_TLS_SAN", "envoy"),
        ]);
        let settings = tls.unwrap().settings;
        let files = TlsFiles { cert: "c".into(), key: "k".into() };
        let expected = GrpcTls { files, client_ca: Some("ca".into()), client_name: Some("envoy".into()) };
        assert_eq!((settings.grpc_tls, settings.tls), (Some(expected), None));
    }

    #[test]
    fn words_on_the_log() {
        for (word, level) in [
            ("PANIC", LogLevel::Error),
            ("Warning", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("DEBUG", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ] {
            assert_eq!(read([("LOG_LEVEL", word)]).unwrap().log_level, level);
        }
        assert_eq!(read([("LOG_FORMAT", "JSON")]).unwrap().log_format, LogFormat::Json);
        assert_eq!(read([("LOG_FORMAT", "logfmt")]).unwrap().log_format, LogFormat::Text, "as there");
    }

    #[test]
    fn mistakes_name_the_variable_its_value_and_what_is_right() {
        for (pairs, expected) in [
            ([("PORT", "80x"), ("", "")], "PORT: \"80x\"; write a port from 0 to 65535"),
            ([("GRPC_PORT", "70000"), ("", "")], "GRPC_PORT: \"70000\"; write a port"),
            ([("DEBUG_PORT", ""), ("", "")], "DEBUG_PORT: \"\"; write a port"),
            ([("HOST", "no host"), ("", "")], "HOST: \"no host\"; write an address of this machine"),
            (
                [("USE_PROMETHEUS", "true"), ("PROMETHEUS_ADDR", "9090")],
                "PROMETHEUS_ADDR: \"9090\"; write an address",
            ),
            ([("USE_PROMETHEUS", "true"), ("PROMETHEUS_PATH", "m")], "PROMETHEUS_PATH: \"m\"; write a path"),
            (
                [("GRPC_MAX_CONNECTION_AGE", "1d"), ("", "")],
                "GRPC_MAX_CONNECTION_AGE: \"1d\"; write a duration",
            ),
            (
                [("GRPC_SERVER_USE_TLS", "true"), ("", "")],
                "GRPC_SERVER_TLS_CERT: missing; GRPC_SERVER_USE_TLS=true",
            ),
            (
                [("GRPC_SERVER_USE_TLS", "true"), ("GRPC_UDS", "/s")],
                "GRPC_UDS: a Unix socket is not encrypted",
            ),
            ([("LOG_LEVEL", "loud"), ("", "")], "LOG_LEVEL: \"loud\"; write `error`, `warn`"),
        ] {
            let said = read(pairs).unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        }
        let pairs = [
            ("GRPC_SERVER_USE_TLS", "1"),
            ("GRPC_SERVER_TLS_CERT", "c"),
            ("GRPC_SERVER_TLS_KEY", "k"),
            ("GRPC_CLIENT_TLS_SAN", "e"),
        ];
        let said = read(pairs).unwrap_err();
        assert!(
            said.starts_with("GRPC_CLIENT_TLS_SAN: \"e\"; nobody asks clients for a certificate"),
            "{said}"
        );
        let said = super::read(&Variables::default(), RedisLayout::Envoyproxy).unwrap_err().to_string();
        assert_eq!(said, "REDIS_URL: missing; --redis-layout envoyproxy shares counters in a Redis");
    }
}
