//! Any bytes as replies, for tests and for fuzzing.

use ratekeeper::testkit::fuzz::check_message;

use super::reply::WireReply;
use super::{http, msgpack, resp};

/// Reads bytes as the replies of each protocol, whole and cut off: for tests and for fuzzing.
pub(crate) fn exercise_replies(bytes: &[u8]) {
    for decode in [http::decode, msgpack::decode, resp::decode] {
        let reply = decode(bytes);
        if let WireReply::Error(_, message) = &reply {
            check_message(message);
        }
        let (WireReply::Whole(len, _) | WireReply::Error(len, _)) = reply else { continue };
        assert!(0 < len && len <= bytes.len());
        assert_eq!(decode(&bytes[..len]), decode(bytes), "what follows a reply is none of it");
        for end in [len / 3, len / 2, len - 1] {
            assert_eq!(decode(&bytes[..end]), WireReply::Partial, "{} of {len} bytes are no reply", end);
        }
    }
}
