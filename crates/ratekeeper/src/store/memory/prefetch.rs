//! Asking for a cache line before it is needed.

/// Tells the processor that `value` will be read soon, where it knows how to be told.
///
/// The one place in this crate that needs `unsafe`: batches of decisions run at memory's bandwidth instead of its
/// latency because of it (the figures are in `docs/performance.md`).
#[inline]
#[allow(unsafe_code, clippy::allow_attributes)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint. It reads nothing that the program could see, writes nothing and cannot fault,
    // whatever the address; this one is that of a live reference. SSE, which has it, is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
