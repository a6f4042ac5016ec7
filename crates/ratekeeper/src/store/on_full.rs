//! What to do when there is no room for another key.

/// What a new key gets when there are as many live ones as there may be, in a store or a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Deny the new key, with [`Reason::StoreFull`](crate::Reason::StoreFull).
    #[default]
    Refuse,
    /// A share in one state for all such keys, under the same quota.
    ///
    /// In a [`MemoryStore`](super::MemoryStore), a thousand [quotas of requests](crate::Rules::Quota) have such a state, so
    /// that they do not take what is [kept for plans](super::MemoryStoreBuilder::kept_for_plans); under others, a denial.
    Share,
}
