//! HTTP and JSON: the transport for `curl`, and for whatever else speaks HTTP.
//!
//! ```text
//! transport   the transport, on hyper            context   what all clients share
//! route       paths to answers                   body      bodies to requests; plan_body: by plans and about holds
//! holds       what is asked under /v1/holds      query     what stands behind the `?` of a path
//! reply       answers to bodies and fields       problem   errors, as problem+json
//! socket      a socket that reports progress     metrics   what Prometheus reads
//! rls         what is asked for Envoy            whole_body   bodies, within bounds
//! guard       pages from elsewhere, kept out     reply_body   bodies of replies
//! console     what the console asks for; console_query: how; plans_page: the plans
//! page        the console's page                 traced    names of spans
//! front_metrics, rls_metrics   what is counted in front of a remote store, and for Envoy
//! exercise    any bytes, for fuzzing             field_exercise   any fields
//! ```

mod body;
mod console;
mod console_query;
mod context;
#[cfg(any(test, fuzzing))]
mod exercise;
#[cfg(any(test, fuzzing))]
mod field_exercise;
mod front_metrics;
mod guard;
mod holds;
mod metrics;
mod metrics_page;
mod page;
mod plan_body;
mod plans_page;
mod problem;
mod query;
mod reply;
mod reply_body;
mod rls;
mod rls_metrics;
mod route;
mod socket;
mod traced;
mod transport;
mod whole_body;

pub(crate) use context::{DEBUG_NAME, HttpTransport, NAME, PROMETHEUS_NAME};
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::{exercise, exercise_body};
#[cfg(any(test, fuzzing))]
pub(crate) use field_exercise::exercise_fields;
pub(crate) use guard::HostNames;
pub(crate) use rls_metrics::rls_stats;
