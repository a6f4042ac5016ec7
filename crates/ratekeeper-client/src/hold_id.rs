//! What a hold is ended by.

use std::fmt;
use std::str::FromStr;

use crate::error::ClientError;

/// What a hold is ended by, wherever and by whomever: written as 32 hexadecimal digits.
///
/// ```
/// use ratekeeper_client::RemoteHoldId;
///
/// let id: RemoteHoldId = "00000000000000000123456789abcdef".parse()?;
/// assert_eq!(id.to_string(), "00000000000000000123456789abcdef");
/// # Ok::<(), ratekeeper_client::ClientError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteHoldId(u128);

impl fmt::Display for RemoteHoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for RemoteHoldId {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        // A sign would pass for a digit.
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(RemoteHoldId).ok_or_else(|| {
            let value = format!("{} bytes", text.len());
            ClientError::Invalid { field: "id", value, remedy: "pass the 32 hexadecimal digits of a hold" }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_32_hexadecimal_digits() {
        let text = "0f000000000000000123456789abcdef";
        assert_eq!(text.parse::<RemoteHoldId>().unwrap().to_string(), text);
        for wrong in ["", "12", "+0000000000000000000000000000001", "g0000000000000000000000000000000"] {
            assert!(wrong.parse::<RemoteHoldId>().is_err(), "{wrong}");
        }
    }
}
