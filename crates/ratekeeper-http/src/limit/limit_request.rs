//! What a request asks of a limit.

use std::borrow::Cow;

use ratekeeper::Cost;

use super::settings::LimitSettings;
use super::verdict::LimitFailure;
use crate::key::{ExtractError, KeyBuf, KeyExtractor, RequestView};

/// What a request asks of a limit: whose it is, the plan it is held to, and its cost.
pub(crate) struct LimitRequest<'a> {
    /// Borrowed, because it is large and would be copied wherever the request goes.
    pub(crate) key: &'a KeyBuf,
    pub(crate) plan: Cow<'a, str>,
    pub(crate) cost: Cost,
}

impl<'a> LimitRequest<'a> {
    /// Reads what an HTTP request asks of a limit. Its key is written into `key`.
    #[inline]
    pub(crate) fn read(
        settings: &'a LimitSettings,
        request: &RequestView<'a>,
        key: &'a mut KeyBuf,
    ) -> Result<Self, LimitFailure> {
        settings.by.extract(request, key).map_err(LimitFailure::Key)?;
        if key.as_bytes().is_empty() {
            return Err(LimitFailure::Key(ExtractError::Empty));
        }
        Ok(LimitRequest { key, plan: settings.plan_for(request), cost: settings.cost.of(request) })
    }
}
