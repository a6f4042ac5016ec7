//! What a server is started with. The command makes it of flags, environment, file and defaults.
//!
//! ```text
//! settings   all of it                    endpoint   where a transport listens
//! rls        the service of Envoy         store      where state is kept
//! tls        certificates                 names      how messages name settings
//! xds        where rules are fetched      statsd     where counters are sent
//! record     how requests are recorded    otlp       where spans are sent
//! ```

mod endpoint;
mod names;
mod otlp;
mod record;
mod rls;
mod settings;
mod statsd;
mod store;
mod tls;
mod xds;

pub use endpoint::{Bind, BindError, PrometheusEndpoint, TransportEndpoint};
pub use names::SettingNames;
pub use otlp::OtlpSettings;
pub(crate) use record::is_in_sample;
pub use record::{RecordSettings, RecordedKeys};
pub use rls::{RedisLayout, RlsFileNames, RlsHeaders, RlsSettings};
pub use settings::{ConnectionAge, Settings};
pub use statsd::{StatsdFamily, StatsdProtocol, StatsdSettings};
pub use store::{PostgresSettings, RedisSettings, StoreLocation};
pub use tls::{GrpcTls, TlsFiles};
pub use xds::{XdsSettings, XdsTls};
