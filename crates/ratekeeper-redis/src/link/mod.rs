//! How commands get to a server, or to the right one of many.
//!
//! ```text
//! route      the link: one server or a cluster     server       one server: its breaker, and its connections
//! cluster    finding nodes, following redirects    holder       one server that holds keys, for what concerns all keys
//! survey     asking nodes for the map              node         one connection to it, made and made again
//! resolve    the addresses behind a name           target       where a node is: fixed, pinned, or at a master
//! sentinel/  where the master is                   connect      one attempt to connect
//! topology   the reply to CLUSTER SLOTS            breakers     the breaker of each server
//! slot_map   which node has which slot             silence      for how long a connection has not answered
//! address    what a URL says                       deadline     until when an answer is waited for
//! slot       which slot a key lies in              per_runtime  what each runtime has for itself
//! options    how long to wait for what             exercise     any replies, for fuzzing
//! ```
//!
//! Opening a link does nothing yet: the first command connects. Concurrent callers on one runtime share one connection
//! for each node, and their commands travel together. Each runtime has its own, and waits for no other. One timer
//! bounds a command with everything it needs: connecting, a redirect, the script's text. A command whose fate is not
//! known is never sent again. The breaker of a server that fails is open, so that it is not asked; it stands behind the
//! routing, so that other servers go on.

mod address;
mod breakers;
mod cluster;
mod connect;
mod deadline;
#[cfg(any(test, fuzzing))]
mod exercise;
mod holder;
mod node;
mod options;
mod per_runtime;
mod resolve;
mod route;
mod sentinel;
mod server;
mod silence;
#[cfg(test)]
mod simulated;
mod slot;
mod slot_map;
mod survey;
mod target;
mod topology;

pub(crate) use address::RedisAddress;
pub(crate) use breakers::BreakerFactory;
pub(crate) use deadline::Deadline;
#[cfg(any(test, fuzzing))]
pub(crate) use exercise::{exercise_address, exercise_topology};
pub(crate) use holder::KeyHolder;
pub(crate) use options::LinkOptions;
pub(crate) use route::Link;
#[cfg(test)]
pub(crate) use slot::of as slot_of;
