//! Answers to bytes: the reply half of the Redis protocol.

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    /// RESP2, with which every connection begins.
    #[default]
    Two,
    /// RESP3, after `HELLO 3`.
    Three,
}

/// The longest piece of a client's bytes in an error message.
const MAX_ECHO: usize = 64;

/// Writes replies to the end of a buffer.
#[derive(Debug)]
pub(super) struct RespReply<'a> {
    out: &'a mut Vec<u8>,
    version: RespVersion,
}

impl<'a> RespReply<'a> {
    /// Returns a writer of replies in this version.
    pub(super) fn new(out: &'a mut Vec<u8>, version: RespVersion) -> Self {
        RespReply { out, version }
    }

    /// Writes `+OK`.
    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// Writes a text that contains no line end.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error, whose first word is its kind. Line ends within it are replaced, so that a reply never splits.
    pub(super) fn error(&mut self, text: &str) {
        self.out.push(b'-');
        self.out.extend(text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a number.
    pub(super) fn integer(&mut self, value: i64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes bytes of any kind.
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', itoa::Buffer::new().format(bytes.len()).as_bytes());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes "no value".
    pub(super) fn null(&mut self) {
        let null: &[u8] = if self.version == RespVersion::Three { b"_\r\n" } else { b"$-1\r\n" };
        self.out.extend_from_slice(null);
    }

    /// Writes the head of an array of `len` replies.
    pub(super) fn array(&mut self, len: usize) {
        self.line(b'*', itoa::Buffer::new().format(len).as_bytes());
    }

    /// Writes the head of `len` pairs of key and value; protocol 2 has no maps and flattens them.
    pub(super) fn map(&mut self, len: usize) {
        match self.version {
            RespVersion::Two => self.array(len * 2),
            RespVersion::Three => self.line(b'%', itoa::Buffer::new().format(len).as_bytes()),
        }
    }

    /// Writes five numbers, the answer to every throttle: put together on the stack, then added in one go.
    #[inline]
    pub(super) fn five(&mut self, values: [i64; 5]) {
        const HEAD: &[u8] = b"*5\r\n";
        // A sign and 19 digits at most, between a colon and a line end.
        let mut text = [0; HEAD.len() + 5 * (1 + 20 + 2)];
        text[..HEAD.len()].copy_from_slice(HEAD);
        let mut at = HEAD.len();
        for value in values {
            text[at] = b':';
            at += 1;
            // Most numbers are small, and a small number is its own digits.
            match u8::try_from(value) {
                Ok(digit @ 0..=9) => {
                    text[at] = b'0' + digit;
                    at += 1;
                }
                Ok(two @ 10..=99) => {
                    text[at..at + 2].copy_from_slice(&[b'0' + two / 10, b'0' + two % 10]);
                    at += 2;
                }
                _ => {
                    let mut buffer = itoa::Buffer::new();
                    let digits = buffer.format(value).as_bytes();
                    text[at..at + digits.len()].copy_from_slice(digits);
                    at += digits.len();
                }
            }
            text[at..at + 2].copy_from_slice(b"\r\n");
            at += 2;
        }
        self.out.extend_from_slice(&text[..at]);
    }

    /// Writes the error for a second word that a command does not have.
    pub(super) fn unknown_subcommand(&mut self, command: &str, sub: &[u8]) {
        let sub = escaped(sub);
        self.error(&format!(
            "ERR unknown subcommand or wrong number of arguments for '{sub}' of '{command}'"
        ));
    }

    /// Writes the error for a wrong number of arguments.
    pub(super) fn wrong_arity(&mut self, command: &str) {
        self.error(&format!("ERR wrong number of arguments for '{command}' command"));
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Returns a client's bytes as a message can show them: printable, and not too many.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let shown = bytes.get(..MAX_ECHO).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() { "..." } else { "" };
    format!("{}{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: RespVersion, write: impl FnOnce(&mut RespReply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut RespReply::new(&mut out, version));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind() {
        let all = |reply: &mut RespReply<'_>| {
            reply.ok();
            reply.integer(-7);
            reply.bulk(b"a\r\nb");
            reply.null();
            reply.map(2);
            reply.five([0, 10, 99, i64::MAX, i64::MIN]);
        };
        let tail = "*5\r\n:0\r\n:10\r\n:99\r\n:9223372036854775807\r\n:-9223372036854775808\r\n";
        assert_eq!(
            written(RespVersion::Two, all),
            format!("+OK\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*4\r\n{tail}")
        );
        assert_eq!(
            written(RespVersion::Three, all),
            format!("+OK\r\n:-7\r\n$4\r\na\r\nb\r\n_\r\n%2\r\n{tail}")
        );
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        assert_eq!(written(RespVersion::Two, |reply| reply.error("ERR a\r\n+OK")), "-ERR a  +OK\r\n");
        assert_eq!(escaped(b"a\r\n\xff'"), r"a\r\n\xff\'");
        assert_eq!(escaped(&[b'a'; 100]).len(), 64 + 3);
    }
}
