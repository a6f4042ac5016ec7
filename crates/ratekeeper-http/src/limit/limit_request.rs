//! What a request asks of a limit.

use std::borrow::Cow;

use ratekeeper::Cost;

use super::settings::LimitSettings;
use super::verdict::LimitFailure;
use crate::key::{KeyBuf, KeyExtractor, RequestView};

/// What a request asks of a limit: whose it is, the plan it is held to, and its cost.
pub(crate) struct LimitRequest<'a> {
    pub(crate) key: KeyBuf,
    pub(crate) plan: Cow<'a, str>,
    pub(crate) cost: Cost,
}

impl<'a> LimitRequest<'a> {
    /// Reads what an HTTP request asks of a limit.
    pub(crate) fn read(settings: &'a LimitSettings, request: &RequestView<'a>) -> Result<Self, LimitFailure> {
        let key = settings.by.key(request).map_err(LimitFailure::Key)?;
        Ok(LimitRequest { key, plan: settings.plan_for(request), cost: settings.cost.of(request) })
    }

    pub(super) fn into_owned(self) -> LimitRequest<'static> {
        LimitRequest { key: self.key, plan: Cow::Owned(self.plan.into_owned()), cost: self.cost }
    }
}
