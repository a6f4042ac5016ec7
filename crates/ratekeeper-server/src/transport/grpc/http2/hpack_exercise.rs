//! Any bytes as header blocks, decoded twice: as it is done, and plainly. For tests and for fuzzing.

use super::hpack::{BadBlock, HpackDecoder};
use super::huffman;
use super::static_table::STATIC_TABLE;

/// Bytes of the table, and those that a field is counted with besides its own.
const MAX_TABLE: usize = 4096;
const OVERHEAD: usize = 32;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Decodes blocks, each after its length in one byte, on one connection.
///
/// # Panics
///
/// A plain decoder reads something else, or the table is larger than it may be.
pub(crate) fn exercise_hpack(mut bytes: &[u8]) {
    let (mut decoder, mut plain) = (HpackDecoder::new(), PlainDecoder { table: Vec::new(), most: MAX_TABLE });
    while let [len, rest @ ..] = bytes {
        let (block, after) = rest.split_at(rest.len().min(usize::from(*len)));
        let mut fields = Fields::new();
        let decoded = decoder.decode(block, |field| fields.push((field.name.to_vec(), field.value.to_vec())));
        assert!(decoder.size() <= plain.most.max(MAX_TABLE));
        let expected = plain.decode(block);
        assert_eq!(decoded.map(|()| fields), expected, "{}", block.escape_ascii());
        // What comes after a block that is none cannot be told: the connection ends.
        if expected.is_err() {
            break;
        }
        assert_eq!(decoder.size(), plain.size());
        bytes = after;
    }
}

/// Decodes blocks as the RFC says it, one thing after the other.
struct PlainDecoder {
    /// The newest first.
    table: Fields,
    most: usize,
}

impl PlainDecoder {
    fn size(&self) -> usize {
        self.table.iter().map(|(name, value)| name.len() + value.len() + OVERHEAD).sum()
    }

    fn evict(&mut self) {
        while self.size() > self.most {
            self.table.pop();
        }
    }

    fn decode(&mut self, mut block: &[u8]) -> Result<Fields, BadBlock> {
        let mut fields = Fields::new();
        while let Some(first) = block.first().copied() {
            if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                fields.push(self.indexed(index)?);
            } else if first & 0xe0 == 0x20 {
                let most = integer(&mut block, 5)?;
                if !fields.is_empty() || most > MAX_TABLE {
                    return Err(BadBlock);
                }
                self.most = most;
                self.evict();
            } else {
                let is_kept = first & 0x40 != 0;
                let index = integer(&mut block, if is_kept { 6 } else { 4 })?;
                let name = if index == 0 { string(&mut block)? } else { self.indexed(index)?.0 };
                let field = (name, string(&mut block)?);
                if is_kept {
                    self.table.insert(0, field.clone());
                    self.evict();
                }
                fields.push(field);
            }
        }
        Ok(fields)
    }

    fn indexed(&self, index: usize) -> Result<(Vec<u8>, Vec<u8>), BadBlock> {
        match index {
            0 => Err(BadBlock),
            1..=61 => {
                let (name, value) = STATIC_TABLE[index - 1];
                Ok((name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            }
            _ => self.table.get(index - 62).cloned().ok_or(BadBlock),
        }
    }
}

/// Reads an integer; those above 2^24 are refused, and so are more than four bytes after the prefix.
fn integer(block: &mut &[u8], prefix: u32) -> Result<usize, BadBlock> {
    let mut bytes = block.iter().copied();
    let most = 2_usize.pow(prefix) - 1;
    let mut value = usize::from(bytes.next().ok_or(BadBlock)?) % (most + 1);
    if value == most {
        let mut shift = 0;
        loop {
            let byte = usize::from(bytes.next().ok_or(BadBlock)?);
            value += (byte % 128) << shift;
            shift += 7;
            match byte {
                ..128 => break,
                _ if shift == 28 => return Err(BadBlock),
                _ => {}
            }
        }
    }
    *block = &block[block.len() - bytes.len()..];
    if value > 1 << 24 { Err(BadBlock) } else { Ok(value) }
}

fn string(block: &mut &[u8]) -> Result<Vec<u8>, BadBlock> {
    let is_coded = block.first().is_some_and(|byte| *byte >= 0x80);
    let len = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(BadBlock)?;
    *block = rest;
    match is_coded {
        false => Ok(text.to_vec()),
        true => {
            let mut decoded = Vec::new();
            huffman::decode(text, &mut decoded).ok_or(BadBlock)?;
            Ok(decoded)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_the_rfc_and_of_nobody_are_read_the_same() {
        exercise_hpack(b"\x14\x82\x86\x84\x41\x0fwww.example.com\x05\x82\x86\x84\xbe\x80\x03\x3f\xe1\x01");
        exercise_hpack(b"\x06\x20\x40\x01a\x01b\x02\xbe\x20\x05\xff\xff\xff\xff\xff");
    }
}
