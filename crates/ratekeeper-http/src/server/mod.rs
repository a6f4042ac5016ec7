//! The server side: a tower layer that limits any HTTP service.
//!
//! ```text
//! layer     Layer and Service           body      the response's body, and what lives until it ends
//! future    one request on its way      refusal   what those are told who are not served
//! ```

mod body;
mod future;
mod layer;
mod refusal;

pub use body::LimitBody;
pub use future::ResponseFuture;
pub use layer::{LimitLayer, LimitService};
