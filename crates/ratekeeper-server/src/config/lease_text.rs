//! Leases as people write them in files: `off`, `10%`, `50ms`.

use ratekeeper::{Lease, LeaseSettingError};
use serde::Deserialize;

/// A [`Lease`] as the file writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct LeaseText(pub Lease);

impl TryFrom<String> for LeaseText {
    type Error = LeaseSettingError;

    fn try_from(text: String) -> Result<Self, LeaseSettingError> {
        text.parse().map(LeaseText)
    }
}
