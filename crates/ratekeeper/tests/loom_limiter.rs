//! placeholder
#![cfg(loom)]
