//! What a load asks Envoy's service for.

use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// What stands for the key of each request.
const PLACEHOLDER: char = '%';
/// What stands in the message where a key belongs: as long as a key, and no text that anybody would write.
const HOLE: [u8; 20] = [0x1a; 20];
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A request with holes, which a key fills: `edge user=%,path=/x + ip=%`.
#[derive(Clone, Debug)]
pub struct RlsTemplate {
    message: Bytes,
    /// Where keys belong.
    holes: Vec<usize>,
}

/// `envoy.service.ratelimit.v3.RateLimitRequest`, as `proto/` has it.
#[derive(prost::Message)]
struct RlsCall {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<CallDescriptor>,
}

#[derive(prost::Message)]
struct CallDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<CallEntry>,
}

#[derive(prost::Message)]
struct CallEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl RlsTemplate {
    /// Returns the message of a request for this key, as a stream of gRPC has it.
    pub(super) fn message(&self, key: &[u8; 20]) -> Bytes {
        let mut message = BytesMut::from(&*self.message);
        for hole in &self.holes {
            message[*hole..*hole + HOLE.len()].copy_from_slice(key);
        }
        message.freeze()
    }
}

impl FromStr for RlsTemplate {
    type Err = RlsTemplateError;

    fn from_str(text: &str) -> Result<Self, RlsTemplateError> {
        let wrong = || RlsTemplateError(text.to_owned());
        let (domain, descriptors) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let hole = String::from_utf8_lossy(&HOLE);
        let entry = |text: &str| {
            let (key, value) = text.split_once('=')?;
            Some(CallEntry { key: key.to_owned(), value: value.replace(PLACEHOLDER, &hole) })
        };
        let descriptor = |text: &str| {
            let entries = text.trim().split(',').map(entry).collect::<Option<_>>()?;
            Some(CallDescriptor { entries })
        };
        let descriptors: Option<_> = descriptors.split('+').map(descriptor).collect();
        let call = RlsCall { domain: domain.to_owned(), descriptors: descriptors.ok_or_else(wrong)? };
        let len = call.encoded_len();
        let mut message = BytesMut::with_capacity(PREFIX + len);
        message.put_u8(0);
        message.put_u32(u32::try_from(len).map_err(|_| wrong())?);
        // There is room for all of it.
        let _ = call.encode(&mut message);
        let mut holes = Vec::new();
        while let Some(at) = holes_after(&message, holes.last().map_or(0, |hole| hole + HOLE.len())) {
            holes.push(at);
        }
        Ok(RlsTemplate { message: message.freeze(), holes })
    }
}

fn holes_after(message: &[u8], from: usize) -> Option<usize> {
    message[from..].windows(HOLE.len()).position(|window| window == HOLE).map(|at| from + at)
}

/// A text that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RlsTemplateError(String);

impl fmt::Display for RlsTemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: not a request; write a domain and descriptors, as in `edge user=%,path=/x + ip=%`",
            self.0
        )
    }
}

impl std::error::Error for RlsTemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fill_the_holes() {
        let template: RlsTemplate = "edge user=%,path=/x + ip=a-%".parse().unwrap();
        let message = template.message(b"key:0000000000000042");
        assert_eq!(message[..PREFIX], [0, 0, 0, 0, u8::try_from(message.len() - PREFIX).unwrap()]);
        let call = RlsCall::decode(&message[PREFIX..]).unwrap();
        let entries: Vec<_> = call.descriptors.iter().flat_map(|descriptor| &descriptor.entries).collect();
        let entries: Vec<_> = entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
        assert_eq!(call.domain, "edge");
        assert_eq!(call.descriptors.len(), 2);
        let key = "key:0000000000000042";
        assert_eq!(entries, [("user", key), ("path", "/x"), ("ip", &*format!("a-{key}"))]);
        for wrong in ["", "edge", "edge user", "edge user=1 + "] {
            assert!(wrong.parse::<RlsTemplate>().is_err(), "{wrong}");
        }
    }
}
