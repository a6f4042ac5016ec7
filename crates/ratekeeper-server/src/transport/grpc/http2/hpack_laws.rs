//! What HPACK says of header blocks: the examples of RFC 7541, and any blocks of a model of its encoder.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::hpack::{BadBlock, HpackDecoder};
use super::huffman;
use super::static_table::STATIC_TABLE;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Fields, BadBlock> {
    let mut fields = Vec::new();
    decoder.decode(block, |field| fields.push((field.name.to_vec(), field.value.to_vec())))?;
    Ok(fields)
}

fn fields(texts: &[(&str, &str)]) -> Fields {
    texts.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Appendix C.2: one field each.
#[test]
fn single_fields_of_the_rfc() {
    for (block, field) in [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ("custom-key", "custom-header")),
        ("040c 2f73 616d 706c 652f 7061 7468", (":path", "/sample/path")),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", ("password", "secret")),
        ("82", (":method", "GET")),
    ] {
        assert_eq!(decoded(&mut HpackDecoder::new(), &bytes(block)), Ok(fields(&[field])));
    }
}

const GET: (&str, &str) = (":method", "GET");
const AUTHORITY: (&str, &str) = (":authority", "www.example.com");

/// Appendices C.3 and C.4: three requests that refer to each other, with and without Huffman's code.
#[test]
fn requests_of_the_rfc() {
    let requests: [Vec<(&str, &str)>; 3] = [
        vec![GET, (":scheme", "http"), (":path", "/"), AUTHORITY],
        vec![GET, (":scheme", "http"), (":path", "/"), AUTHORITY, ("cache-control", "no-cache")],
        vec![GET, (":scheme", "https"), (":path", "/index.html"), AUTHORITY, ("custom-key", "custom-value")],
    ];
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = HpackDecoder::new();
        for (block, expected) in blocks.iter().zip(&requests) {
            assert_eq!(decoded(&mut decoder, &bytes(block)), Ok(fields(expected)));
        }
    }
}

/// Appendices C.5 and C.6: a table of 256 bytes, from which the oldest fields fall.
#[test]
fn responses_of_the_rfc() {
    let (private, place) = (("cache-control", "private"), ("location", "https://www.example.com"));
    let first = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let second = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    let responses: [Vec<(&str, &str)>; 3] = [
        vec![(":status", "302"), private, first, place],
        vec![(":status", "307"), private, first, place],
        vec![(":status", "200"), private, second, place, ("content-encoding", "gzip"), cookie],
    ];
    let plain = [
        "3fe101 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, coded] {
        let mut decoder = HpackDecoder::new();
        for (block, expected) in blocks.iter().zip(&responses) {
            assert_eq!(decoded(&mut decoder, &bytes(block)), Ok(fields(expected)));
        }
    }
}

#[test]
fn what_is_no_block() {
    for (what, block) in [
        ("no field has the number 0", "80"),
        ("nothing was remembered", "be"),
        ("a number without its end", "ff"),
        ("a number without end", "ffff ffff ffff ffff"),
        ("a number that is far too large", "ff80 8080 8008"),
        ("a text without its end", "0003 6162"),
        ("a name without a value", "0001 61"),
        ("the table of 4097 bytes", "3fe2 1f"),
        ("the size of the table after a field", "8220"),
        ("a name of nobody", "7f7f 0161"),
        ("a code that ends nowhere", "0001 6181 00"),
        ("a code with the end of texts in it", "0001 6184 ffff ffff"),
    ] {
        assert_eq!(decoded(&mut HpackDecoder::new(), &bytes(block)), Err(BadBlock), "{what}");
    }
}

#[test]
fn what_is_longer_than_the_table_empties_it() {
    let mut decoder = HpackDecoder::new();
    assert!(decoded(&mut decoder, &bytes("4001 6101 62")).is_ok());
    assert_eq!(decoded(&mut decoder, b"\xbe"), Ok(fields(&[("a", "b")])));
    let long = [b"\x40\x01a\x7f\xe1\x1f".as_slice(), &[b'x'; 4192]].concat();
    assert!(decoded(&mut decoder, &long).is_ok());
    assert_eq!(decoded(&mut decoder, b"\xbe"), Err(BadBlock));
}

/// An encoder that does everything which the RFC allows, as it is told.
#[derive(Default)]
struct ModelEncoder {
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    most: usize,
}

impl ModelEncoder {
    fn fit(&mut self) {
        let size = |table: &VecDeque<(Vec<u8>, Vec<u8>)>| -> usize {
            table.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        while size(&self.table) > self.most {
            self.table.pop_back();
        }
    }

    fn find(&self, is_it: impl Fn(&[u8], &[u8]) -> bool) -> Option<usize> {
        let known = STATIC_TABLE.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut all = known.chain(self.table.iter().map(|(name, value)| (&name[..], &value[..])));
        all.position(|(name, value)| is_it(name, value)).map(|nth| nth + 1)
    }

    fn number(out: &mut Vec<u8>, flags: u8, prefix: u32, mut value: usize) {
        let most = (1 << prefix) - 1;
        if value < most {
            return out.push(flags | u8::try_from(value).unwrap());
        }
        out.push(flags | u8::try_from(most).unwrap());
        value -= most;
        while value >= 128 {
            out.push(value.to_le_bytes()[0] | 128);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap());
    }

    fn text(out: &mut Vec<u8>, text: &[u8], is_coded: bool) {
        let coded = if is_coded { huffman::encode(text) } else { text.to_vec() };
        Self::number(out, if is_coded { 128 } else { 0 }, 7, coded.len());
        out.extend(coded);
    }

    fn field(&mut self, out: &mut Vec<u8>, (name, value): (Vec<u8>, Vec<u8>), how: u8) {
        let is_coded = how & 1 != 0;
        if how & 2 != 0
            && let Some(index) = self.find(|other, text| other == name && text == value)
        {
            return Self::number(out, 128, 7, index);
        }
        let known = if how & 4 != 0 { self.find(|other, _| other == name) } else { None };
        let (flags, prefix) = match how >> 3 & 3 {
            0 | 1 => (0x40, 6),
            2 => (0x10, 4),
            _ => (0, 4),
        };
        Self::number(out, flags, prefix, known.unwrap_or(0));
        if known.is_none() {
            Self::text(out, &name, is_coded);
        }
        Self::text(out, &value, is_coded);
        if prefix == 6 {
            self.table.push_front((name, value));
            self.fit();
        }
    }
}

fn any_field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = prop_oneof![
        prop::sample::select(vec![":path", "te", "grpc-timeout", "content-type", "x"])
            .prop_map(str::to_owned),
        "[a-z-]{1,40}",
    ];
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        prop::sample::select(vec![&b""[..], b"trailers", b"application/grpc", &[b'v'; 900]])
            .prop_map(<[u8]>::to_vec),
    ];
    (name.prop_map(String::into_bytes), value)
}

proptest! {
    #![proptest_config(test_support::cases::config(2_000))]

    #[test]
    fn whatever_an_encoder_does_is_undone(
        blocks in prop::collection::vec(
            (prop::option::of(0..=4096_usize), prop::collection::vec((any_field(), any::<u8>()), 0..8)),
            1..12,
        ),
    ) {
        let (mut encoder, mut decoder) = (ModelEncoder { most: 4096, ..Default::default() }, HpackDecoder::new());
        for (most, block) in blocks {
            let mut out = Vec::new();
            if let Some(most) = most {
                encoder.most = most;
                encoder.fit();
                ModelEncoder::number(&mut out, 0x20, 5, most);
            }
            let expected: Fields = block.iter().map(|(field, _)| field.clone()).collect();
            for (field, how) in block {
                encoder.field(&mut out, field, how);
            }
            prop_assert_eq!(decoded(&mut decoder, &out), Ok(expected));
        }
    }

    #[test]
    fn any_bytes_are_fields_or_no_block(blocks: Vec<Vec<u8>>) {
        let mut decoder = HpackDecoder::new();
        for block in blocks {
            if decoded(&mut decoder, &block).is_err() {
                break;
            }
            prop_assert!(decoder.size() <= 4096);
        }
    }
}
