//! The configuration file: TOML, every key of it known, every mistake with its line.
//!
//! - [`Config`]: a file that was read, and its plans; [`ConfigFile`]: what a file may say, section by section
//! - [`Findings`]: every mistake of a file, for tools that check files; [`ConfigError`]: one mistake
//! - [`DurationText`], [`ByteSize`], [`Percent`], [`SampleShare`], [`LeaseText`], [`SecretText`]: values as flags and files
//!   spell them
//! - [`watch`]: has the plans of a running server follow the file

mod changes;
mod document;
mod duration;
mod error;
mod file;
mod findings;
mod lease_text;
mod logging;
mod on_store_error;
mod plans;
mod record_section;
mod reload;
mod rls_section;
mod secret_text;
mod units;

pub use document::Config;
pub use duration::{DurationError, DurationText};
pub use error::ConfigError;
pub use file::{
    BreakerSection, ConfigFile, LimitsSection, OtlpSection, ServerSection, StoreSection, TransportSection,
    TransportSections,
};
pub use findings::Findings;
pub use lease_text::LeaseText;
pub use logging::{LogFormat, LogLevel};
pub use on_store_error::OnStoreError;
pub use record_section::{RecordKeys, RecordSection};
pub use reload::{ReadPlans, watch};
pub use rls_section::{BodyWord, HeadersSetting, LayoutWord, OverWord, RlsSection, XdsSection};
pub use secret_text::{SecretText, may_hold_password, without_passwords};
pub use units::{ByteSize, MeasureError, Percent, SampleShare};
