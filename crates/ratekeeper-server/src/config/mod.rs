//! The configuration file: TOML, every key of it known, every mistake with its line.
//!
//! - [`Config`]: a file that was read, and its plans; [`ConfigFile`]: what a file may say, section by section
//! - [`Findings`]: every mistake of a file, for tools that check files; [`ConfigError`]: one mistake

mod document;
mod error;
mod file;
mod findings;
mod plans;

pub use document::Config;
pub use error::ConfigError;
pub use file::{
    BreakerSection, ConfigFile, LimitsSection, OnStoreError, ServerSection, StoreSection, TransportSection,
    TransportSections,
};
pub use findings::Findings;
