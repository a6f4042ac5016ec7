//! Rules of Envoy's protocol: from the text of files to the rule that a descriptor finds.
//!
//! The tables are the cases that envoyproxy/ratelimit tests itself by; the rest is what must hold of any file.

mod allocations;
mod cases;
mod explaining;
mod fixtures;
mod reference;
mod refused;
mod rules;
mod sources;
mod support;
mod yaml;
