//! Memory that no neighbour shares.

/// A cache line to itself, so that neighbours do not slow each other down.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(super) struct CacheLine<T>(pub(super) T);
