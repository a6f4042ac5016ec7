//! HTTP and JSON: the transport for `curl`, and for whatever else speaks HTTP.
//!
//! ```text
//! transport   the transport, on hyper            context   what all clients share
//! route       paths to answers                   body      bodies to requests
//! reply       answers to bodies and fields       problem   errors, as problem+json
//! socket      a socket that reports progress     metrics   what Prometheus reads
//! ```

mod body;
mod context;
mod metrics;
mod problem;
mod reply;
mod route;
mod socket;
mod transport;

pub(crate) use context::{HttpTransport, NAME};
