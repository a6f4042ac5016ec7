//! The ratekeeper server: one engine over the network.
//!
//! A driving adapter: it reads bytes, asks the engine in the crate `ratekeeper`, and writes bytes. It decides nothing by
//! itself, and holds no state but that of its connections. What starts it, the command `ratekeeper serve` or any other
//! program, makes [`Settings`] and an [`Engine`], and calls [`Server::start`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use ratekeeper::{MemoryStore, Plan, Registry};
//! use ratekeeper_server::{TransportEndpoint, Engine, RequestLimits, Server, Settings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plans = Registry::new([Plan::parse("free", "10/s burst 20")?]);
//! let engine = Arc::new(Engine::in_memory(MemoryStore::default(), plans, RequestLimits::default()));
//! let http = Some(TransportEndpoint::at(([127, 0, 0, 1], 0).into()));
//! let server = Server::start(&Settings { http, ..Settings::default() }, &engine)?;
//! assert_eq!(server.addresses()[0].0, "http");
//! server.stop();
//! # Ok(()) }
//! ```
//!
//! # Layout, from the ground up
//!
//! ```text
//! secret       tokens, and the files that hold them       watcher    files that are looked at again
//! error        why a server cannot start                  files      files that it writes
//! one_line     messages that quote what somebody has sent
//! request      what a client asks, whichever wire carried it
//! settings     what a server is started with
//! net          connections below every protocol: event loops, sockets, TLS, timeouts, stopping
//! watch        what is counted, remembered and logged     record     what was asked, in a file
//! otel         spans of requests, sent to a collector     trace_parent  which trace a request belongs to
//! config       the configuration file, its values, and its reload
//! rls          descriptors, rules and answers of Envoy's protocol
//! guesses      tokens that are guessed, slowly            engine     the keeper, and all that is around it
//! token_reload tokens that are exchanged
//! responder    requests to answers, once for all wires    snapshot, store_check   the engine's state and store
//! console      what there is to look at, and its history
//! stream       sockets, buffers and batches of protocols that are streams
//! transport    RESP, HTTP, gRPC and MessagePack: bytes to requests, answers to bytes
//! statsd       counters that are sent                     xds        rules that a control plane pushes
//! server       starts, announces and stops all of it
//! ```

#![forbid(unsafe_code)]

pub mod config;
mod console;
mod engine;
mod error;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod guesses;
mod net;
#[cfg(not(feature = "otel"))]
mod no_otel;
mod one_line;
#[cfg(feature = "otel")]
mod otel;
mod record;
mod request;
mod responder;
pub mod rls;
mod rule_row;
mod secret;
mod server;
mod settings;
mod shared_store;
mod snapshot;
mod statsd;
mod store_check;
mod stream;
mod token_files;
mod token_reload;
mod trace_parent;
mod transport;
mod watch;
mod watcher;
mod xds;

#[cfg(not(feature = "otel"))]
use no_otel as otel;

pub use engine::Engine;
pub use error::ServerError;
pub use otel::Tracer;
pub use record::Recorder;
pub use request::{QuotaBounds, RequestLimits, WrongDefault};
pub use secret::{Secret, TokenClash, Tokens};
pub use server::{ProcessSignals, Server, serve};
pub use settings::{
    Bind, BindError, ConnectionAge, GrpcTls, OtlpSettings, PostgresSettings, PrometheusEndpoint,
    RecordSettings, RecordedKeys, RedisSettings, SettingNames, Settings, StatsdFamily, StatsdProtocol,
    StatsdSettings, StoreLocation, TlsFiles, TransportEndpoint,
};
pub use shared_store::SharedStore;
pub use snapshot::{PeriodicSnapshot, Snapshot};
pub use statsd::StatsdSender;
pub use store_check::{check_store, close_store};
pub use token_files::TokenFiles;
pub use watch::{EventKind, EventLevel, EventLog, FrontCounts, ReloadCounts, SnapshotCounts};
pub use watcher::FileWatcher;
pub use xds::XdsClient;
