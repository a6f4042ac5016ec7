//! The server side: a tower layer that limits any HTTP service.
//!
//! ```text
//! layer     Layer and Service                        body      the response's body, and what it holds until it ends
//! future    one request on its way to a response     refusal   responses to requests that are not served
//! judge     what follows from a verdict              grpc      gRPC's header fields
//! ```

mod body;
mod future;
mod grpc;
mod judge;
mod layer;
mod refusal;

pub use body::LimitBody;
pub use future::ResponseFuture;
pub use layer::{LimitLayer, LimitService};
