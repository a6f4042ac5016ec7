//! One key for all requests.

use super::buffer::KeyBuf;
use super::error::ExtractError;
use super::extractor::KeyExtractor;

/// One limit for everybody: the key is `__global__` for every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

impl<R: ?Sized> KeyExtractor<R> for Global {
    fn extract(&self, _: &R, key: &mut KeyBuf) -> Result<(), ExtractError> {
        key.push(b"__global__");
        Ok(())
    }
}
