//! Variables of the Go service that mean nothing here: said once, so that nobody waits for what they used to do.

use super::variables::{VariableError, Variables};

/// What variables mean nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnusedVariables {
    /// Their names, side by side.
    pub(super) names: String,
    pub(super) why: &'static str,
}

/// Variables that stand for one thing.
struct VariableGroup {
    /// What turns it on; without any it is always on.
    switches: &'static [&'static str],
    names: &'static [&'static str],
    why: &'static str,
}

const GROUPS: [VariableGroup; 6] = [
    VariableGroup {
        switches: &[],
        names: &[
            "REDIS_POOL_SIZE",
            "REDIS_POOL_ON_EMPTY_BEHAVIOR",
            "REDIS_PIPELINE_WINDOW",
            "REDIS_PIPELINE_LIMIT",
            "REDIS_CLUSTER_PIPELINE_PARALLELISM",
        ],
        why: "each event loop has one connection to each Redis, and all requests share it",
    },
    VariableGroup {
        switches: &[],
        names: &["EXPIRATION_JITTER_MAX_SECONDS"],
        why: "counters expire when their window ends",
    },
    VariableGroup {
        switches: &[],
        names: &[
            "REDIS_STARTUP_INITIAL_INTERVAL",
            "REDIS_STARTUP_MAX_INTERVAL",
            "REDIS_STARTUP_MAX_ELAPSED_TIME",
        ],
        why: "it serves while the Redis is away, and finds it when it is there",
    },
    VariableGroup {
        switches: &["REDIS_PERSECOND"],
        names: &[
            "REDIS_PERSECOND",
            "REDIS_PERSECOND_SOCKET_TYPE",
            "REDIS_PERSECOND_TYPE",
            "REDIS_PERSECOND_URL",
            "REDIS_PERSECOND_POOL_SIZE",
            "REDIS_PERSECOND_AUTH",
            "REDIS_PERSECOND_TLS",
            "REDIS_PERSECOND_SENTINEL_AUTH",
            "REDIS_PERSECOND_PIPELINE_WINDOW",
            "REDIS_PERSECOND_PIPELINE_LIMIT",
            "REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
            "REDIS_PERSECOND_TIMEOUT",
            "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
        ],
        why: "all counters are in the one Redis of REDIS_URL",
    },
    VariableGroup {
        switches: &["USE_DOG_STATSD"],
        names: &["USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS"],
        why: "nothing is sent in the form of Datadog; metrics are read from /metrics, or sent by USE_STATSD=true",
    },
    VariableGroup {
        switches: &["TRACING_ENABLED"],
        names: &[
            "TRACING_ENABLED",
            "TRACING_SERVICE_NAME",
            "TRACING_SERVICE_NAMESPACE",
            "TRACING_SERVICE_INSTANCE_ID",
            "TRACING_EXPORTER_PROTOCOL",
            "TRACING_SAMPLING_RATE",
        ],
        why: "no traces are written",
    },
];

/// Returns the variables that were set and mean nothing. What is turned off is not told: it does what it says.
pub(super) fn unused(variables: &Variables) -> Result<Vec<UnusedVariables>, VariableError> {
    let mut told = Vec::new();
    for VariableGroup { switches, names, why } in GROUPS {
        let mut on = Vec::new();
        for switch in switches {
            if variables.bool(switch)? {
                on.push(*switch);
            }
        }
        let is_on = switches.is_empty() || !on.is_empty();
        let is_told = |name: &&str| !switches.contains(name) || on.contains(name);
        let set = names.iter().copied().filter(|name| variables.given(name).is_some());
        let set: Vec<&str> = set.filter(is_told).collect();
        if is_on && !set.is_empty() {
            told.push(UnusedVariables { names: set.join(", "), why });
        }
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const N: usize>(pairs: [(&str, &str); N]) -> Vec<String> {
        unused(&pairs.into()).unwrap().into_iter().map(|unused| unused.names).collect()
    }

    #[test]
    fn what_was_set_and_means_nothing_is_told_by_group() {
        assert!(names([]).is_empty());
        assert_eq!(
            names([
                ("REDIS_POOL_SIZE", "10"),
                ("REDIS_PIPELINE_WINDOW", "150us"),
                ("EXPIRATION_JITTER_MAX_SECONDS", "300"),
                ("REDIS_PERSECOND", "true"),
                ("REDIS_PERSECOND_URL", "r:1"),
                ("USE_DOG_STATSD", "true"),
                ("STATSD_HOST", "h"),
                ("TRACING_ENABLED", "true"),
            ]),
            [
                "REDIS_POOL_SIZE, REDIS_PIPELINE_WINDOW",
                "EXPIRATION_JITTER_MAX_SECONDS",
                "REDIS_PERSECOND, REDIS_PERSECOND_URL",
                "USE_DOG_STATSD",
                "TRACING_ENABLED",
            ]
        );
    }

    #[test]
    fn what_is_turned_off_is_not_told() {
        let off = [
            ("USE_DOG_STATSD", "false"),
            ("USE_DOG_STATSD_MOGRIFIERS", "m"),
            ("REDIS_PERSECOND_URL", "r:1"),
            ("TRACING_ENABLED", "0"),
        ];
        assert!(names(off).is_empty());
        let wrong = unused(&[("USE_DOG_STATSD", "no")].into()).unwrap_err().to_string();
        assert_eq!(wrong, "USE_DOG_STATSD: \"no\"; write `true` or `false`");
    }
}
