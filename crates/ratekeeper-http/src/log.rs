//! What an operator must hear of. Without the feature `tracing`, only the responses say it.

/// A mistake of set-up, or a failure that callers notice.
pub(crate) fn error(limit: &str, what: &dyn std::fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::error!(limit, "{what}");
    #[cfg(not(feature = "tracing"))]
    let _ = (limit, what);
}
