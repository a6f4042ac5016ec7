//! MessagePack over TCP: a length of four bytes, then a request; answers in the order of the requests.
//!
//! ```text
//! transport   the transport                   protocol   frames to answers, for one client
//! body        bodies to requests              reader     MessagePack to values
//! answer      decisions to bodies             framing    throttles that repeat
//! verb        what is sent as a map           verb_body  maps to requests; verbs: their answers
//! exercise    any bytes, for fuzzing
//! ```

mod answer;
mod body;
#[cfg(any(test, fuzzing))]
mod exercise;
mod framing;
mod protocol;
mod reader;
mod transport;
mod verb;
mod verb_body;
mod verbs;

#[cfg(any(test, fuzzing))]
pub(crate) use exercise::exercise;
pub(crate) use transport::{MsgPackTransport, NAME};
