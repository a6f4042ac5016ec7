//! Leases over real servers, by real clocks, counted from outside: what all instances together admit, what happens when the
//! server is away, what is given back and what is forgotten.
//!
//! ```text
//! instances   several instances under one limit, and what they were answered
//! every_span  no span of time holds more than is promised, whoever asks, hoards or gives back
//! windows     no window holds more than its limit, nor when the server freezes across its edge
//! outages     what is paid for is spent, and then the failure mode answers
//! returns     what is left over is there for others; a reset is honoured by all
//! ```

mod every_span;
mod instances;
mod outages;
mod returns;
mod windows;
