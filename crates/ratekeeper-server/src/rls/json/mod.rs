//! Requests and answers as JSON, by the rules that protocol buffers have for it.

mod reading;
mod writing;

pub use reading::{RlsJsonError, read_json};
pub use writing::write_json;
