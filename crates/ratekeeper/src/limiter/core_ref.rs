//! A limiter's core, borrowed from a handle or shared.

use super::core::LimiterCore;
use crate::sync::Arc;

/// A core that is borrowed from a handle, which costs nothing, or shared, for what must outlive the handle.
#[derive(Clone, Debug)]
pub(crate) enum CoreRef<'a> {
    Borrowed(&'a Arc<LimiterCore>),
    Shared(Arc<LimiterCore>),
}

impl CoreRef<'static> {
    /// Shares this core.
    pub(crate) fn shared(core: &Arc<LimiterCore>) -> Self {
        CoreRef::Shared(Arc::clone(core))
    }
}

impl std::ops::Deref for CoreRef<'_> {
    type Target = Arc<LimiterCore>;

    fn deref(&self) -> &Arc<LimiterCore> {
        match self {
            CoreRef::Borrowed(core) => core,
            CoreRef::Shared(core) => core,
        }
    }
}
