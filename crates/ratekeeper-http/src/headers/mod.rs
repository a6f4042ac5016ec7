//! Rate limits as header fields: [`parse`] reads whatever a server sends, [`emit`] writes what ours sends.
//!
//! A server reports what is left, and a client reads it:
//!
//! ```
//! use ratekeeper_http::headers::{self, HeaderDialect, LimitStatus, PolicyField, QuotaPolicy, emit};
//! use std::time::{Duration, SystemTime};
//!
//! // Once, at start-up:
//! let policies = PolicyField::new(&[QuotaPolicy::new("burst", 100).window(Duration::from_secs(60))])?;
//!
//! // Per response:
//! let mut response = http::HeaderMap::new();
//! let status = LimitStatus {
//!     name: &policies.names()[0],
//!     limit: 100,
//!     remaining: 50,
//!     reset: Some(Duration::from_secs(30)),
//! };
//! emit::write(&mut response, HeaderDialect::Ietf, &policies, &[status]);
//! assert_eq!(response["ratelimit"], r#""burst";r=50;t=30"#);
//!
//! // On the other side:
//! let understood = headers::parse(&response, SystemTime::now());
//! assert_eq!(understood.limits[0].name.as_deref(), Some("burst"));
//! assert_eq!(understood.limits[0].limit, Some(100));
//! assert_eq!(understood.limits[0].remaining, Some(50));
//! assert_eq!(understood.limits[0].reset, Some(Duration::from_secs(30)));
//! # Ok::<(), headers::FieldError>(())
//! ```
//!
//! # What is understood
//!
//! | family, in order of rank | fields |
//! |---|---|
//! | IETF structured | `RateLimit`, `RateLimit-Policy`: draft 11, its later dialect (`a`, `w`), draft 07 |
//! | IETF older | `RateLimit-Limit`, `-Remaining`, `-Reset` |
//! | `X-` | `X-RateLimit-*`, then `X-Rate-Limit-*`: the plain three, `-Reset-After`, a name in `-Resource` or `-Bucket`, rules in `-Policy` (written as in `RateLimit-Policy`, of any draft), and three per name (`-Limit-Tokens`; Kong's `-Limit-Minute` is a policy too) |
//! | vendors | `Anthropic-RateLimit-<name>-*`, `X-Shopify-Shop-Api-Call-Limit` |
//!
//! Besides these `Retry-After`, `Age`, and `Date`, which absolute times are taken against. `Retry-After-Ms` (and
//! Azure's `X-Ms-Retry-After-Ms`) is the same wait in milliseconds, and wins over whole seconds.
//!
//! A policy over a window of no time is none, and a quota of `-1` is how some servers write that there is no limit.
//!
//! # When a response speaks several dialects
//!
//! 1. Limits with different names are different limits: all are kept, those of higher rank first.
//! 2. About one name, the higher rank is right. A lower one may fill its gaps (a missing quota, say), unless
//!    the two contradict each other in a number.
//! 3. A limit without a name that contradicts a limit of another family in no number is that limit, told twice:
//!    they become one, with the name if either has one. Resets may differ by two seconds of rounding.
//! 4. A limit without a name that does contradict them all is a limit of its own.
//!
//! Within a family, what is said twice in the same words counts once; names that repeat with different numbers
//! are kept; and of several lines of a field that holds one number, the most cautious counts: the least quota,
//! the least remaining, the longest wait.
//!
//! # What cannot happen
//!
//! No bytes make this panic. A field that makes no sense is ignored and the others are kept. Numbers saturate
//! instead of wrapping, negative ones are unknown. No more than [`MAX_ENTRIES`] limits and policies are kept, nor
//! names longer than [`MAX_NAME`].

pub mod emit;

mod date;
mod dialect;
mod family;
mod fields;
mod ietf;
mod lines;
mod mode;
mod name;
mod number;
mod parse;
mod policy_field;
mod quota_policy;
mod response_time;
mod retry_after;
mod server_limits;
mod trio;
mod unit_fields;

pub use dialect::HeaderDialect;
pub use emit::LimitStatus;
pub use fields::{
    MAX_ENTRIES, MAX_NAME, RATELIMIT, RATELIMIT_POLICY, RETRY_AFTER_MS, X_RATELIMIT_LIMIT,
    X_RATELIMIT_REMAINING, X_RATELIMIT_RESET,
};
pub use mode::ParseMode;
pub use name::{FieldError, LimitName};
pub use parse::{parse, parse_lines, parse_lines_with, parse_with};
pub use policy_field::PolicyField;
pub use quota_policy::{QuotaPolicy, QuotaUnit};
pub use server_limits::{ServerLimit, ServerLimits};
pub use unit_fields::UnitFields;
