//! What an operator must see. Without the feature `tracing` nothing is logged.

/// Logs a mistake of set-up, or a failure that callers notice.
pub(crate) fn error(limit: &str, what: &dyn std::fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::error!(limit, "{what}");
    #[cfg(not(feature = "tracing"))]
    let _ = (limit, what);
}
