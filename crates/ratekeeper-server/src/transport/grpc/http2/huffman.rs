//! The Huffman code of RFC 7541, appendix B. It is canonical: codes of one length follow each other in the order of their
//! symbols, so the lengths alone say everything.

/// Bits of each symbol's code; the last one ends a text and never occurs.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];
const LONGEST: usize = 30;
const END: u16 = 256;

/// What decoding needs, made of the lengths when this is compiled.
struct HuffmanCode {
    /// By the first eight bits: the symbol, and the length of its code; 0 if that is longer.
    short: [(u8, u8); 256],
    /// By the length: its first code, how many there are, and where their symbols begin.
    by_length: [(u32, u32, usize); LONGEST + 1],
    /// The symbols in the order of their codes.
    symbols: [u16; 257],
}

static CODE: HuffmanCode = HuffmanCode::new();

impl HuffmanCode {
    const fn new() -> Self {
        let mut made =
            HuffmanCode { short: [(0, 0); 256], by_length: [(0, 0, 0); LONGEST + 1], symbols: [0; 257] };
        let (mut len, mut code, mut index) = (1, 0_u32, 0);
        while len <= LONGEST {
            code <<= 1;
            let (first, begin) = (code, index);
            let mut symbol = 0_u16;
            while symbol <= END {
                if LENGTHS[symbol as usize] as usize == len {
                    made.symbols[index] = symbol;
                    if len <= 8 {
                        let (from, count) = ((code as usize) << (8 - len), 1 << (8 - len));
                        let mut at = from;
                        while at < from + count {
                            // Codes this short are those of bytes, and of less than eight bits.
                            made.short[at] = (symbol.to_le_bytes()[0], LENGTHS[symbol as usize]);
                            at += 1;
                        }
                    }
                    index += 1;
                    code += 1;
                }
                symbol += 1;
            }
            made.by_length[len] = (first, code - first, begin);
            len += 1;
        }
        made
    }

    /// Returns the symbol whose code of more than eight bits these begin with, and its length.
    fn long(&self, bits: u64) -> Option<(u16, u32)> {
        (9..=30_u32).zip(&self.by_length[9..]).find_map(|(len, (first, count, begin))| {
            let code = u32::try_from(bits >> (64 - len)).ok()?;
            let nth = code.checked_sub(*first).filter(|nth| nth < count)?;
            self.symbols.get(begin + nth as usize).map(|symbol| (*symbol, len))
        })
    }
}

/// Appends the text of a code. Returns `None` if it is none: it holds the end of a text, or is padded with anything but
/// the beginning of that.
pub(super) fn decode(coded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let mut coded = coded.iter();
    // The next bits of the code, from the highest on, and how many there are.
    let (mut bits, mut have) = (0_u64, 0_u32);
    loop {
        while have <= 56 {
            let Some(byte) = coded.next() else { break };
            bits |= u64::from(*byte) << (56 - have);
            have += 8;
        }
        let (byte, len) = CODE.short[usize::from(bits.to_be_bytes()[0])];
        let len = if len > 0 && u32::from(len) <= have {
            text.push(byte);
            u32::from(len)
        } else {
            match CODE.long(bits).filter(|(_, len)| *len <= have) {
                Some((symbol, len)) => {
                    text.push(u8::try_from(symbol).ok()?);
                    len
                }
                // What is left must be less than a byte, of ones.
                None => return (have < 8 && bits.leading_ones() == have).then_some(()),
            }
        };
        bits <<= len;
        have -= len;
    }
}

#[cfg(test)]
/// Returns the code of a text, by the same lengths; RFC 7541 has examples of both.
pub(super) fn encode(text: &[u8]) -> Vec<u8> {
    let code_of = |byte: u8| {
        let len = LENGTHS[usize::from(byte)];
        let (first, _, begin) = CODE.by_length[usize::from(len)];
        let nth = CODE.symbols[begin..].iter().position(|symbol| *symbol == u16::from(byte)).unwrap();
        (first + u32::try_from(nth).unwrap(), len)
    };
    let mut bits: Vec<bool> = Vec::new();
    for byte in text {
        let (code, len) = code_of(*byte);
        bits.extend((0..len).rev().map(|bit| code >> bit & 1 == 1));
    }
    bits.resize(bits.len().next_multiple_of(8), true);
    bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    /// RFC 7541, appendices C.4 and C.6.
    #[test]
    fn the_texts_of_the_rfc() {
        for (text, coded) in [
            ("www.example.com", &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..]),
            ("no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            ("custom-key", b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f"),
            ("custom-value", b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf"),
            ("302", b"\x64\x02"),
            ("private", b"\xae\xc3\x77\x1a\x4b"),
            (
                "Mon, 21 Oct 2013 20:13:21 GMT",
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
            ),
            (
                "https://www.example.com",
                b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3",
            ),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text.as_bytes()));
            assert_eq!(encode(text.as_bytes()), coded);
        }
    }

    #[test]
    fn padding_is_less_than_a_byte_of_ones_and_the_end_is_no_symbol() {
        assert_eq!(decoded(b""), Some(vec![]));
        for wrong in [&b"\xff"[..], b"\xff\xff\xff\xff", b"\x64\x02\xff", b"\x00", b"\x06", b"\x18", b"\xfe"]
        {
            assert_eq!(decoded(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn what_is_coded_is_decoded(text: Vec<u8>) {
            prop_assert_eq!(decoded(&encode(&text)), Some(text));
        }

        /// What decodes has one code only, so nothing is understood in two ways.
        #[test]
        fn a_text_has_one_code(coded: Vec<u8>) {
            if let Some(text) = decoded(&coded) {
                prop_assert_eq!(encode(&text), coded);
            }
        }
    }
}
