//! File descriptors: one for each connection, so the process takes as many as it may have.

/// Raises the soft limit to the hard one. Many systems start processes with a thousand, for the sake of programs that
/// cannot count further; this one can.
#[cfg(unix)]
pub(super) fn raise() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => tracing::debug!(?before, now = ?limit.current, "raised the limit of open files"),
        // It goes on with what there is: whoever comes too late waits, and is told of in the log.
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

#[cfg(not(unix))]
pub(super) fn raise() {}
