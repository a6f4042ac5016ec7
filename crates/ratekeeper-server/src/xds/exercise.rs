//! Any bytes as a control plane might push them, for tests and for fuzzing.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use prost_types::Any;

use super::resources::TYPE_URL;
use super::session::XdsSession;
use super::stream::{read_push, take_message};
use crate::rls::{RateLimitService, RlsSettings};
use crate::settings::XdsSettings;
use crate::stream::pieces;
use crate::transport::grpc::generated::envoy_service_discovery_v3::DiscoveryResponse;

/// The bytes are one resource, and not a stream of pushes.
const IS_RESOURCE: u8 = 1;
/// The most bytes of one push.
const MAX_PUSH: usize = 64 * 1024;
/// The longest message that a control plane is told, and the longest that is logged.
const MAX_TOLD: usize = 4 * 1024;

/// Takes pushes, whole and in pieces: a byte of flags, four that tell how long the pieces are, and the stream; or one resource.
///
/// # Panics
///
/// What is accepted depends on the pieces; a push that is refused changes the rules; or a refusal is longer than it may be.
pub(crate) fn exercise(bytes: &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    if flags & IS_RESOURCE != 0 {
        let resource = Any { type_url: TYPE_URL.to_owned(), value: bytes.to_vec() };
        let push = DiscoveryResponse {
            version_info: "1".to_owned(),
            nonce: "n".to_owned(),
            resources: vec![resource],
            ..DiscoveryResponse::default()
        };
        let message = push.encode_to_vec();
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        drop(taken([&[&[0][..], &len.to_be_bytes(), &message].concat()[..]].into_iter()));
        return;
    }
    let (pieces, stream) = pieces(bytes);
    assert_eq!(taken(pieces), taken([stream].into_iter()), "what is taken does not depend on how it comes");
}

/// Returns what is answered to each push, and why the stream ends.
fn taken<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let service = Arc::new(RateLimitService::new(RlsSettings::default()));
    let mut session = XdsSession::new(&XdsSettings::of_server("plane:1"), Arc::clone(&service));
    let (mut buffer, mut told) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let message = match take_message(&mut buffer, MAX_PUSH) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(failure) => return ended(told, failure.to_string()),
            };
            let push = match read_push(message) {
                Ok(push) => push,
                Err(failure) => return ended(told, failure.to_string()),
            };
            told.extend(answered(&mut session, &service, push));
        }
    }
    told
}

fn ended(mut told: Vec<String>, failure: String) -> Vec<String> {
    assert!(failure.len() <= MAX_TOLD && !failure.contains(char::is_control), "{failure:?}");
    told.push(failure);
    told
}

/// Returns what is said to a push. One that is refused leaves all as it was.
fn answered(session: &mut XdsSession, service: &RateLimitService, push: DiscoveryResponse) -> Option<String> {
    let before = service.config();
    let (version, nonce) = (push.version_info.clone(), push.nonce.clone());
    let answer = session.take(push)?;
    assert_eq!(answer.response_nonce, nonce);
    match &answer.error_detail {
        None => assert_eq!(answer.version_info, version),
        Some(status) => {
            assert!(!status.message.is_empty() && status.message.len() <= MAX_TOLD, "{}", status.message);
            assert!(!status.message.contains(char::is_control), "{:?}", status.message);
            let rules = |config: Option<Arc<_>>| config.map(|config| Arc::as_ptr(&config));
            assert_eq!(rules(service.config()), rules(before), "the rules before stay");
        }
    }
    // It is sent, so it can be.
    assert!(Bytes::from(answer.encode_to_vec()).len() <= 64 * 1024);
    Some(format!("{:?}", answer.error_detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_taken_in_any_pieces() {
        let resource = b"\x0a\x01r\x12\x04edge\x1a\x10\x0a\x04user\x1a\x04\x08\x02\x10\x05\x42\x02\x0a\x00";
        exercise(&[&[1], &resource[..]].concat());
        let any = Any { type_url: TYPE_URL.to_owned(), value: resource.to_vec() };
        let push = DiscoveryResponse { resources: vec![any], ..DiscoveryResponse::default() }.encode_to_vec();
        let framed = [&[0, 0, 0, 0, u8::try_from(push.len()).unwrap()][..], &push].concat();
        exercise(&[&[0, 0, 1, 2, 3], &framed.repeat(2)[..], b"\x01\0\0\0\0"].concat());
    }
}
