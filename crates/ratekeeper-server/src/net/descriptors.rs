//! File descriptors: each connection needs one.

/// Raises the soft limit of open files to the hard one. Many systems start processes with 1024, for programs that use
/// `select(2)`; this one does not.
#[cfg(unix)]
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => tracing::debug!(?before, now = ?limit.current, "start: raised the limit of open files"),
        // The server runs with what there is: connections beyond it wait, and the log tells of them.
        Err(error) => tracing::warn!(%error, "start: cannot raise the limit of open files"),
    }
}

#[cfg(not(unix))]
pub(crate) fn raise_descriptor_limit() {}
