//! Commands and replies as bytes.

/// Takes the first command out of a buffer, if all of it is there.
pub(super) fn take_command(buffer: &mut Vec<u8>) -> Option<Vec<String>> {
    let (count, mut at) = header(buffer, 0, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (len, from) = header(buffer, at, b'$')?;
        at = from + len + 2;
        let word = buffer.get(from..at)?;
        words.push(String::from_utf8_lossy(&word[..len]).into_owned());
    }
    buffer.drain(..at);
    Some(words)
}

/// Returns the number in a line that begins with this sign, and where the next line begins.
fn header(buffer: &[u8], at: usize, sign: u8) -> Option<(usize, usize)> {
    let len = buffer.get(at..)?.windows(2).position(|end| end == b"\r\n")?;
    let line = &buffer[at..at + len];
    assert_eq!(line[0], sign, "{}", line.escape_ascii());
    Some((str::from_utf8(&line[1..]).unwrap().parse().unwrap(), at + len + 2))
}

pub(super) fn ok() -> String {
    "+OK\r\n".to_owned()
}

pub(super) fn number(number: u64) -> String {
    format!(":{number}\r\n")
}

pub(super) fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

pub(super) fn error(line: &str) -> String {
    format!("-{line}\r\n")
}

pub(super) fn array(parts: &[String]) -> String {
    format!("*{}\r\n{}", parts.len(), parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_when_all_of_it_is_there() {
        let sent = b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n";
        for len in 0..sent.len() {
            let mut buffer = sent[..len].to_vec();
            assert_eq!((take_command(&mut buffer), buffer.len()), (None, len));
        }
        let mut buffer = sent.repeat(2);
        assert_eq!(take_command(&mut buffer).unwrap(), ["PING", ""]);
        assert_eq!(buffer, sent);
    }
}
