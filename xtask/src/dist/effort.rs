//! How well is packed.

/// What is tried once and thrown away is packed fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackingEffort {
    Least,
    Most,
}
