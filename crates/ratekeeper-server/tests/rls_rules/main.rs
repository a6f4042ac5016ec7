//! Rules of Envoy's protocol: from the text of files to the rule that a descriptor finds.
//!
//! The tables are the cases that envoyproxy/ratelimit tests itself by; the rest is what must hold of any file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod allocations;
mod any_bytes;
mod cases;
mod corpus;
mod explaining;
mod fixtures;
mod reference;
mod refused;
mod rules;
mod sources;
mod support;
mod yaml;
