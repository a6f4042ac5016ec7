//! Fields of a message, one after the other, where it lies: what is counted needs no memory.

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Takes a field: its number, and its bytes if it has a length. None at the end, and where nothing can be read.
pub(crate) fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    if !rest.has_remaining() {
        return None;
    }
    let (tag, wire_type) = decode_key(rest).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, tag, rest, DecodeContext::default()).ok()?;
        return Some((tag, None));
    }
    let len = usize::try_from(decode_varint(rest).ok()?).ok()?;
    let (inner, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some((tag, Some(inner)))
}
