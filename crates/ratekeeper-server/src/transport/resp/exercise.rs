//! Any bytes as a client of Redis might send them, for tests and for fuzzing.

use std::sync::Arc;

use super::client::RespClient;
use super::context::RespTransport;
use crate::engine::{fuzz_engine, fuzz_tokens};
use crate::net::{Connection, ConnectionSlots};
use crate::stream::{Progress, StreamExchange, flagged, pieces};

/// Tokens are asked for.
const NEEDS_TOKENS: u8 = 1;
/// The client is on another machine.
const IS_REMOTE: u8 = 2;

/// A part of what `INFO` tells.
const KEYSPACE: &[u8] = b"# Keyspace";

/// The longest error, its framing included.
const MAX_ERROR: usize = 1024;

/// Has a client send these bytes, whole and in pieces: a byte of flags, four that tell how long the pieces are, and the stream.
///
/// # Panics
///
/// The answers depend on the pieces, or are not one whole reply for each command.
pub(crate) fn exercise(bytes: &[u8]) {
    let (flags, bytes) = flagged(bytes);
    let (pieces, stream) = pieces(&bytes);
    let whole = StreamExchange::of(&mut client(flags), [stream]);
    check_replies(&whole, stream);
    let cut = StreamExchange::of(&mut client(flags), pieces);
    assert_eq!(whole.end, cut.end, "how it ends does not depend on how bytes come");
    check_replies(&cut, stream);
    // How many bytes a store takes depends on which keys share a shard, and that is chosen by chance.
    if !whole.out.windows(KEYSPACE.len()).any(|bytes| bytes == KEYSPACE) {
        assert!(without_ids(whole.out) == without_ids(cut.out), "answers do not depend on how bytes come");
    }
}

fn client(flags: u8) -> RespClient {
    let tokens = fuzz_tokens(flags & NEEDS_TOKENS != 0);
    let transport = RespTransport::new(fuzz_engine(), ConnectionSlots::new(1), tokens);
    let peer = if flags & IS_REMOTE != 0 { [192, 0, 2, 1] } else { [127, 0, 0, 1] };
    RespClient::new(Arc::new(transport), Connection::alone_from(peer.into()))
}

/// Every command is answered by one reply, and the last reply says why there are no more.
fn check_replies(exchange: &StreamExchange, stream: &[u8]) {
    let (mut rest, mut replies, mut last) = (&exchange.out[..], 0, &[][..]);
    while !rest.is_empty() {
        let Some(after) = after_reply(rest, 8) else { panic!("no reply: {}", rest.escape_ascii()) };
        last = &rest[..rest.len() - after.len()];
        if last[0] == b'-' {
            assert!(last.len() <= MAX_ERROR, "an error of {} bytes", last.len());
            assert!(
                last[..last.len() - 2].iter().all(|byte| !byte.is_ascii_control()),
                "an error of more than a line"
            );
        }
        replies += 1;
        rest = after;
    }
    let commands = commands(stream);
    match exchange.end {
        None => assert_eq!(replies, commands, "a reply for each command"),
        Some(Progress::Quit) => assert!(replies <= commands && last == b"+OK\r\n"),
        Some(_) => assert!(replies <= commands + 1 && last.starts_with(b"-ERR Protocol error: ")),
    }
}

/// Returns what follows a whole reply of either version; none if it is none.
fn after_reply(bytes: &[u8], depth: u8) -> Option<&[u8]> {
    let depth = depth.checked_sub(1)?;
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, line, mut rest) = (bytes.first()?, bytes.get(1..end)?, &bytes[end + 2..]);
    let number = || str::from_utf8(line).ok()?.parse::<i64>().ok();
    match kind {
        b'+' | b'-' => {}
        b'_' => return line.is_empty().then_some(rest),
        b':' => drop(number()?),
        b'$' => match number()? {
            -1 => {}
            len => {
                let (_, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
                rest = after.strip_prefix(b"\r\n")?;
            }
        },
        b'*' | b'%' => {
            let values = usize::try_from(number()?).ok()? * if *kind == b'%' { 2 } else { 1 };
            for _ in 0..values {
                rest = after_reply(rest, depth)?;
            }
        }
        _ => return None,
    }
    Some(rest)
}

/// Returns how many commands there are, by a plain reader that knows no errors: it stops where it understands nothing.
fn commands(mut stream: &[u8]) -> usize {
    let mut count = 0;
    while let Some((words, after)) = command(stream) {
        count += usize::from(words > 0);
        stream = after;
    }
    count
}

/// Returns how many words the next command has, and what follows it.
fn command(stream: &[u8]) -> Option<(usize, &[u8])> {
    let end = stream.iter().position(|byte| *byte == b'\n')?;
    let (line, mut rest) = (&stream[..end], &stream[end + 1..]);
    let Some(count) = line.strip_prefix(b"*") else {
        return Some((line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count(), rest));
    };
    let count = number(count)?;
    for _ in 0..count {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let len = number(rest[..end].strip_prefix(b"$")?)?;
        let (_, after) = rest[end + 1..].split_at_checked(usize::try_from(len).ok()?)?;
        rest = after.strip_prefix(b"\r\n")?;
    }
    Some((usize::try_from(count).unwrap_or(0), rest))
}

fn number(line: &[u8]) -> Option<i64> {
    let digits = line.strip_suffix(b"\r").filter(|line| !line.starts_with(b"+"))?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns replies without the ids of holds, which are chosen by chance.
fn without_ids(mut out: Vec<u8>) -> Vec<u8> {
    const HEAD: &[u8] = b"$32\r\n";
    let mut at = 0;
    while let Some(found) = out[at..].windows(HEAD.len()).position(|bytes| bytes == HEAD) {
        at += found + HEAD.len();
        if let Some(id) = out.get_mut(at..at + 32).filter(|id| id.iter().all(u8::is_ascii_hexdigit)) {
            id.fill(b'0');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the law would find if it were broken: otherwise nobody knows that it looks.
    #[test]
    fn replies_are_told_apart_and_counted() {
        assert_eq!(after_reply(b"*2\r\n$1\r\na\r\n:-5\r\n+OK\r\n", 8), Some(&b"+OK\r\n"[..]));
        assert_eq!(after_reply(b"%1\r\n+a\r\n_\r\n", 8), Some(&b""[..]));
        for broken in ["*1\r\n", "$2\r\na\r\n", ":x\r\n", "OK\r\n", "+OK", "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"] {
            assert_eq!(after_reply(broken.as_bytes(), 4), None, "{broken}");
        }
        assert_eq!(commands(b"PING\r\n \r\n*-1\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPIN"), 2);
        assert_eq!(without_ids(b"$32\r\n0123456789abcdef0123456789abcdef\r\n".to_vec())[5..37], [b'0'; 32]);
    }

    #[test]
    fn any_session_may_be_cut_anywhere() {
        let session = b"MULTI\r\n*3\r\n$7\r\nACQUIRE\r\n$1\r\nk\r\n$4\r\nfree\r\nEXEC\r\n\
            *5\r\n$8\r\nTHROTTLE\r\n$1\r\na\r\n$1\r\n3\r\n$1\r\n1\r\n$2\r\n60\r\n\
            *5\r\n$8\r\nTHROTTLE\r\n$2\r\nbb\r\n$1\r\n3\r\n$1\r\n1\r\n$2\r\n60\r\n\
            HELLO 3 AUTH default sesame\r\nAUTH no\r\nHOLD k held UNIT tokens 2 EACH\r\n\
            SETTLE k 00000000000000000000000000000001 UNIT tokens 1\r\nINFO\r\nCOMMAND\r\nQUIT\r\n";
        for flags in 0..8 {
            for lens in [[0; 4], [1, 2, 3, 4], [255; 4], [6, 0, 20, 1]] {
                exercise(&[&[flags], &lens[..], session].concat());
            }
        }
    }
}
