//! Names of fields, and how much of them is kept.

use http::HeaderName;

/// How many limits, and how many policies, are kept of one response or put into one field.
pub const MAX_ENTRIES: usize = 64;

/// Length in bytes of the longest name that is kept or sent, before escaping.
pub const MAX_NAME: usize = 256;

/// The field `RateLimit`: what is left, and for how long.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The field `RateLimit-Policy`: quotas and windows.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The legacy field `X-RateLimit-Limit`: the quota.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The legacy field `X-RateLimit-Remaining`: how much is left.
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The legacy field `X-RateLimit-Reset`: seconds until there is more.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The field `Retry-After-Ms`: `Retry-After` in milliseconds, which clients of language models prefer.
pub const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
