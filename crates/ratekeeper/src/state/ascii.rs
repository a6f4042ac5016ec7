//! Compact ASCII: a record as a line of text, the same that Go services of this layout write.
//!
//! Two header characters, strategy and format version, then fields, all joined by `|`.
//!
//! | part | text |
//! |---|---|
//! | token bucket | `12\|tokens\|last_ns` |
//! | fixed windows | `23\|N\|name\|count\|start_ns…`, N times |
//! | leaky bucket | `32\|level\|last_ns` |
//! | GCRA | `42\|tat_ns` |
//! | composite | `51\|primary$secondary`, the secondary being a composite when there are more parts |
//! | sliding window counter | `61\|previous\|current\|slot_start_ns` |
//! | sliding window log | `71\|N\|t_ns\|cost…`, N times, 0 of them for an empty log |
//! | by the names of rules | `81\|rule=state$rule=state…`, each state one of the above but a composite |
//!
//! Decoding takes no other text than these: no space, no field more or less. Integers are decimal, with a sign and
//! leading zeros if need be, in 64 bits; doubles are decimal notation with an optional exponent, and finite.
//! Compare-and-set compares the text that was read, never a re-encoding: `32|5.0|1` is encoded again as `32|5|1`.

use super::error::StateError;
use super::named::{HEADER, NamedStates};
pub use super::part_text::MAX_LEN;
use super::part_text::{decode_parts, text_of, write_part};
use super::record::Record;

/// Returns the record as text.
///
/// ```
/// use ratekeeper::state::ascii;
/// let record = ascii::decode("32|5.0|1761884055342794596")?;
/// assert_eq!(ascii::encode(&record), "32|5|1761884055342794596");
/// # Ok::<(), ratekeeper::state::StateError>(())
/// ```
pub fn encode(record: &Record) -> String {
    let mut out = String::with_capacity(64);
    encode_into(record, &mut out);
    out
}

/// Appends the record as text.
pub fn encode_into(record: &Record, out: &mut String) {
    for (index, (name, part)) in record.names().iter().zip(record.parts()).enumerate() {
        out.push_str(if index == 0 { HEADER } else { "$" });
        out.push_str(name.as_str());
        out.push('=');
        write_part(out, part);
    }
    let by_position = if record.names().is_empty() { record.parts() } else { &[] };
    let Some((last, before)) = by_position.split_last() else { return };
    for part in before {
        out.push_str("51|");
        write_part(out, part);
        out.push('$');
    }
    write_part(out, last);
}

/// Reads a record. Never panics, takes time and memory in proportion to the text, and does not recurse.
///
/// ```
/// use ratekeeper::state::{StateErrorKind, ascii};
/// let error = ascii::decode("12|lots|1761884055342794596").unwrap_err();
/// assert_eq!(error.kind(), StateErrorKind::Field);
/// assert_eq!(error.to_string(), "tokens: `lots`; a finite number in decimal notation");
/// ```
pub fn decode(text: impl AsRef<[u8]>) -> Result<Record, StateError> {
    let text = text_of(text.as_ref())?;
    if text.starts_with(HEADER) {
        return NamedStates::decode(text)?.into_record();
    }
    decode_parts(text)
}
