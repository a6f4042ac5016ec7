//! How much of what there is to try is tried.

/// Returns true if all cases are to be tried, as `cargo xtask test --thorough` has it. Otherwise it is a part of
/// them.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("RATEKEEPER_THOROUGH").is_some()
}

/// So many of these cases as are to be tried.
pub(crate) fn share(cases: u32) -> u32 {
    if is_thorough() { cases } else { cases.div_ceil(4) }
}
