//! The server under attack: 1, 2 and 16 event loops, every transport, many connections, pipelined. What is admitted is counted
//! outside of the process, by the test's own clock.
//!
//! Event loops read the clock once for a batch. A batch that was decided with the instant of another loop, or before its lock was
//! free, used to look like a clock that had stepped back: two loops admitted 6 % too much, and sixteen up to 28 %.

mod client;
mod grpc;
mod transports;
