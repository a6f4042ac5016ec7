//! MessagePack over TCP: a length of four bytes, then a request; answers in the order of the requests.
//!
//! ```text
//! transport   the transport                   protocol   frames to answers, for one client
//! body        bodies to requests              reader     MessagePack to values
//! answer      decisions to bodies             framing    throttles that repeat
//! ```

mod answer;
mod body;
mod framing;
mod protocol;
mod reader;
mod transport;

pub(crate) use transport::{MsgPackTransport, NAME};
