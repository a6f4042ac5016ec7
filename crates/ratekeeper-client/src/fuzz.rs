//! What the target in `fuzz/` calls; nothing of it is in a program.

use bytes::BytesMut;

use crate::error::ClientError;
use crate::frame::{FrameReply, ReplyBody, reply};

/// The longest reply, with its length before it.
const LONGEST: usize = 64 * 1024 + 4;
/// The longest error. A client depends on no other crate of ours, which could check this for it.
const MAX_ERROR: usize = 1024;

/// Reads bytes as a server might send them, whole and in pieces: the first four bytes tell how long the pieces are.
///
/// # Panics
///
/// What is read depends on the pieces, more is kept of a reply that is not complete than it may have, or an error is not one short line.
pub fn client_reply(bytes: &[u8]) {
    let (lens, stream) = bytes.split_at(bytes.len().min(4));
    let whole = read([stream]);
    let mut rest = stream;
    let pieces = lens.iter().cycle().map_while(|len| {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*len) + 1));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(read(pieces), whole, "what is read does not depend on how it comes");
}

/// Returns what each reply says, in words.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut input, mut said) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match reply(&mut input) {
                Ok(Some(reply)) => said.push(words(reply)),
                Ok(None) => break,
                Err(error) => {
                    said.push(error.to_string());
                    return said;
                }
            }
        }
        assert!(input.len() < LONGEST, "{} bytes of a reply that is not complete", input.len());
    }
    said
}

/// Has every verb make of a reply what it can.
fn words(reply: FrameReply) -> String {
    match reply {
        Ok(ReplyBody::Map(map)) => {
            let (ruling, hold, outcome) = (map.ruling(), map.hold(), map.outcome());
            assert!(hold.is_err() || ruling.is_ok(), "a hold has a ruling");
            format!("{ruling:?} {hold:?} {outcome:?} {:?}", map.whole("forgotten"))
        }
        Ok(body) => {
            let decision = body.decision();
            assert!(decision.is_ok());
            format!("{decision:?}")
        }
        Err(error) => {
            assert!(matches!(error, ClientError::Refused(_)) && !error.is_transient());
            let error = error.to_string();
            assert!(error.len() <= MAX_ERROR, "{} bytes: {error}", error.len());
            assert!(!error.contains(char::is_control), "{error:?}");
            error
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The seeds of the fuzzer, replayed without one. They are in the repository, and not in a package.
    #[test]
    fn what_was_found_before_stays_found() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("ratekeeper-fuzz") {
            eprintln!("not run: the seeds are in the repository, and this is a package");
            return;
        }
        let corpus = fuzz.join("corpus/client_reply");
        let seeds: Vec<_> = fs::read_dir(corpus).unwrap().map(|seed| seed.unwrap().path()).collect();
        assert!(seeds.len() >= 5);
        for seed in seeds {
            eprintln!("{}", seed.display());
            super::client_reply(&fs::read(seed).unwrap());
        }
    }
}
