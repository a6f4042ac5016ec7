//! The codec's laws, and the frames that have broken other servers.

use proptest::prelude::*;

use super::*;

/// Everything that a stream of bytes amounts to: the commands, and what went wrong in the end.
#[derive(Debug, PartialEq)]
struct Read {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<FramingError>,
    left: usize,
}

/// Reads `bytes` as a connection does that receives them up to each of the `cuts` in turn.
fn read(bytes: &[u8], cuts: &[usize]) -> Read {
    let mut parser = CommandParser::default();
    let (mut commands, mut start) = (Vec::new(), 0);
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        loop {
            match parser.step(&bytes[start..cut.max(start)]) {
                FrameStep::Command(len) => {
                    let args = parser.args();
                    let words = (0..args.len()).map(|index| bytes[args.range(index, start)].to_vec());
                    commands.push(words.collect());
                    start += len;
                }
                FrameStep::Incomplete => break,
                FrameStep::Malformed(error) => return Read { commands, error: Some(error), left: 0 },
            }
        }
    }
    Read { commands, error: None, left: bytes.len() - start }
}

fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn error_of(text: &str) -> String {
    read(text.as_bytes(), &[]).error.map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_no_command_can_begin_with() {
    assert_eq!(error_of("*1048576\r\n*1048576\r\n"), "more than 32 arguments");
    assert_eq!(error_of("*1\r\n$999999999999\r\n"), "a command of more than 65536 bytes");
    assert_eq!(error_of("*1\r\n$9999999999999999999\r\n"), "invalid bulk length");
    assert_eq!(error_of("*1\r\n$-1\r\n"), "invalid bulk length");
    assert_eq!(error_of("*x\r\n"), "invalid multibulk length");
    assert_eq!(error_of("*\r\n"), "invalid multibulk length");
    assert_eq!(error_of("*1\n"), "invalid multibulk length");
    assert_eq!(error_of("*1\r\n:1\r\n"), "expected '$', got ':'");
    assert_eq!(error_of("*1\r\n\r\n"), r"expected '$', got '\r'");
    assert_eq!(error_of("*1\r\n$4\r\nPINGxx"), "expected CR LF after an argument");
    assert_eq!(error_of(&"*1".repeat(100)), "invalid multibulk length");
    assert_eq!(error_of(&"x".repeat(MAX_COMMAND)), "a command of more than 65536 bytes");
}

#[test]
fn the_largest_command_is_read_and_a_byte_more_is_not() {
    let frame = |len: usize| encode(&[vec![b'k'; len]]);
    let overhead = frame(60_000).len() - 60_000;
    let largest = frame(MAX_COMMAND - overhead);
    assert_eq!(largest.len(), MAX_COMMAND);
    assert_eq!(read(&largest, &[9, MAX_COMMAND - 1]).commands.len(), 1);
    let larger = frame(MAX_COMMAND - overhead + 1);
    assert_eq!(read(&larger, &[]).error, Some(FramingError::TooLong));
    assert_eq!(read(&larger, &[MAX_COMMAND]).error, Some(FramingError::TooLong));
}

#[test]
fn arrays_of_nothing_are_skipped() {
    let all = read(b"*0\r\n*-1\r\n\r\n*1\r\n$4\r\nPING\r\n", &[]);
    assert_eq!(all.commands.concat(), [b"PING".to_vec()]);
    assert_eq!((all.error, all.left), (None, 0));
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..=MAX_ARGS)
}

/// Bytes that look like the protocol more often than chance would have it.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => words().prop_map(|words| encode(&words)),
        1 => "[ -~]{0,20}\r?\n".prop_map(String::into_bytes),
        1 => "[*$]-?[0-9]{0,13}\r?\n?".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    #[test]
    fn what_is_encoded_is_read(commands in prop::collection::vec(words(), 0..5)) {
        let bytes: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
        prop_assert_eq!(read(&bytes, &[]), Read { commands, error: None, left: 0 });
    }

    /// However the bytes are split into reads, the same commands come out; and no bytes at all make it panic.
    #[test]
    fn any_split_reads_the_same(
        bytes in protocol_like(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|index| index.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = read(&bytes, &[]);
        prop_assert_eq!(&read(&bytes, &cuts), &whole);
        let each: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&read(&bytes, &each), &whole);
    }
}
