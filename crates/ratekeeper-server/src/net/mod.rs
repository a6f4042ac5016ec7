//! Connections below every protocol: listening, event loops, sockets, timeouts, stopping.
//!
//! ```text
//! transport    what a protocol must implement     event_loop   accepts and serves, one per core
//! connection   what is known of each client       slots        how many connections there may be
//! socket, tls  bytes, encrypted or not            listener     sockets that share a port
//! stop         the signal that it is over         farewell     lets clients read their last replies
//! budget       how long one client is served      auth_state   which tokens a connection has shown
//! validity     when a certificate ends            descriptors  as many as the process may have
//! acceptor     clients as they come in            client_names whose certificates are accepted
//! ```
//!
//! There is no channel and no other task between a socket and its decision: a connection lives on the loop that
//! accepted it, and what it asks is decided there.

mod acceptor;
mod auth_state;
mod budget;
#[cfg(feature = "tls")]
mod client_names;
mod connection;
mod descriptors;
mod event_loop;
mod farewell;
mod listener;
mod slots;
mod socket;
mod stop;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod transport;
#[cfg(feature = "tls")]
mod validity;

pub(crate) use auth_state::AuthState;
pub(crate) use budget::{LoopBudget, defer, let_sockets_in};
pub(crate) use connection::{Connection, FORWARDING_FIELDS};
pub(crate) use descriptors::raise_descriptor_limit;
pub(crate) use event_loop::{BoundListener, ConnectionTimeouts, run_event_loop};
pub(crate) use farewell::{Farewell, SocketClosing};
pub(crate) use listener::{ListeningSocket, SocketFile, bind, bind_unix};
pub(crate) use slots::ConnectionSlots;
pub(crate) use socket::Socket;
pub(crate) use stop::{Stop, StopWatch};
pub(crate) use tls::{CertificateRotation, Tls};
pub(crate) use transport::{Serving, Transport};
