//! `ratelimit`: mistakes in its variables, told before anything is started.

use crate::cli::support::{Ran, ratekeeper, run};

/// Runs it with nothing but these variables.
fn ratelimit(variables: &[(&str, &str)]) -> Ran {
    let output = ratekeeper(&["ratelimit"]).env_clear().envs(variables.iter().copied()).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_mistake_names_the_variable_its_value_and_what_is_right() {
    for (variables, expected) in [
        (&[("PORT", "http")][..], "PORT: \"http\"; write a port from 0 to 65535"),
        (
            &[("GRPC_MAX_CONNECTION_AGE", "1 day")],
            "GRPC_MAX_CONNECTION_AGE: \"1 day\"; write a duration such as",
        ),
        (&[("SHADOW_MODE", "on")], "SHADOW_MODE: \"on\"; write `true` or `false`"),
        (&[("NEAR_LIMIT_RATIO", "eighty")], "NEAR_LIMIT_RATIO: \"eighty\"; write a part of 1"),
        (&[("LOG_LEVEL", "LOUD")], "LOG_LEVEL: \"LOUD\"; write `error`"),
        (
            &[("BACKEND_TYPE", "memcache"), ("MEMCACHE_HOST_PORT", "m:1")],
            "BACKEND_TYPE: memcache: counters cannot be",
        ),
        (
            &[("REDIS_TYPE", "DOUBLE"), ("REDIS_URL", "r:1")],
            "REDIS_TYPE: \"DOUBLE\"; write `SINGLE`, `SENTINEL` or `CLUSTER`",
        ),
        (
            &[("REDIS_TYPE", "SENTINEL"), ("REDIS_URL", "host:1")],
            "REDIS_URL: sentinels are named as `master,host:port",
        ),
        (&[("REDIS_URL", "host:port")], "REDIS_URL: port: a port is a number from 1 to 65535"),
        (&[("CONFIG_TYPE", "CONSUL")], "CONFIG_TYPE: \"CONSUL\"; write `FILE`"),
        (&[("GRPC_SERVER_USE_TLS", "true")], "GRPC_SERVER_TLS_CERT: missing; "),
    ] {
        let said = ratelimit(variables).refused();
        assert!(said.starts_with(&format!("ratekeeper: {expected}")), "{said}");
    }
}

#[test]
fn no_password_is_told() {
    for variables in [
        [("REDIS_URL", "redis://:sesame@host:port"), ("REDIS_TYPE", "SINGLE")],
        [("REDIS_URL", "host:port"), ("REDIS_AUTH", "user:sesame")],
        [("REDIS_URL", "user:sesame@host:1"), ("REDIS_SOCKET_TYPE", "unix")],
    ] {
        let said = ratelimit(&variables).refused();
        assert!(!said.contains("sesame"), "{said}");
    }
}

#[test]
fn help_tells_what_it_listens_on_and_reads() {
    let help = run(&["ratelimit", "--help"]).ok();
    for expected in ["PORT", "8081", "6070", "RUNTIME_ROOT", "REDIS_URL", "--redis-layout"] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
    assert_eq!(run(&["ratelimit", "--redis-layout", "go"]).code, 2);
}
