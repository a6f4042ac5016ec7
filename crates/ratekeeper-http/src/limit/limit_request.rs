//! What a request asks of a limit.

use std::borrow::Cow;

use super::request_amounts::RequestAmounts;
use super::settings::LimitSettings;
use super::verdict::LimitFailure;
use crate::key::{ExtractError, KeyBuf, KeyExtractor, RequestView};
use crate::usage::Estimate;

/// What a request asks of a limit: whose it is, the plan it is held to, and how much it takes.
pub(crate) struct LimitRequest<'a> {
    /// Borrowed, because it is large and would be copied wherever the request goes.
    pub(crate) key: &'a KeyBuf,
    pub(crate) plan: Cow<'a, str>,
    pub(crate) amounts: RequestAmounts,
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
        let (plan, cost) = (settings.plan_for(request), settings.cost.of(request));
        let amounts = match &settings.metering {
            None => RequestAmounts::from(cost),
            Some(metering) => {
                // A plan that does not exist counts nothing; what becomes of the request is the keeper's to say.
                let plan = request.extension::<Estimate>().and_then(|_| settings.find(&plan));
                let counts = |unit: &str| plan.as_ref().is_some_and(|plan| plan.units().any(|of| of == unit));
                RequestAmounts::new(cost, metering.costs.of(request, counts))
            }
        };
        Ok(LimitRequest { key, plan, amounts })
    }
}
