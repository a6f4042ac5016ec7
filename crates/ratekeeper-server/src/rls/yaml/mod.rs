//! YAML as the Go service reads it: the rules of YAML 1.1 for what a scalar is, on the text as it was written.
//!
//! ```text
//! scalar     what a scalar means              reader     a file to what it says of a domain
//! tree       a document with its aliases      metadata   whatever stands below `metadata`
//! fields     which key belongs where
//! ```

mod fields;
mod metadata;
mod reader;
mod scalar;
mod tree;

pub(in crate::rls) use reader::read_domain;
