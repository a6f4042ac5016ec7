//! HPACK (RFC 7541): the fields of requests, as differences to those before. Only decoded: what is answered is written
//! without the table.

use std::collections::VecDeque;
use std::sync::LazyLock;

use super::super::call_head::FieldMeaning;
use super::huffman;
use super::static_table::STATIC_TABLE;

/// Bytes of the fields that a client may have remembered here, each counted with [`OVERHEAD`]: what HTTP/2 begins with.
const MAX_TABLE: usize = 4096;
/// Bytes that a field is counted with, besides its own.
const OVERHEAD: usize = 32;
/// Bytes of room for texts that are kept from one block to the next.
const KEPT: usize = 512;
/// The most that a number can be here. Whatever is numbered or measured is far smaller.
const MAX_NUMBER: usize = 1 << 24;

static STATIC_MEANINGS: LazyLock<[FieldMeaning; STATIC_TABLE.len()]> =
    LazyLock::new(|| STATIC_TABLE.map(|(name, value)| FieldMeaning::of(name.as_bytes(), value.as_bytes())));

/// A header block that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadBlock;

/// The table of one client.
#[derive(Debug)]
pub(super) struct HpackDecoder {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    /// Bytes of all entries.
    size: usize,
    /// Bytes that all entries may have now.
    most: usize,
    /// Texts that were coded.
    name: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug)]
struct TableEntry {
    /// The name, and the value after it.
    text: Box<[u8]>,
    name: usize,
    meaning: FieldMeaning,
}

impl TableEntry {
    fn new(name: &[u8], value: &[u8], meaning: FieldMeaning) -> Self {
        TableEntry { text: [name, value].concat().into_boxed_slice(), name: name.len(), meaning }
    }

    fn size(&self) -> usize {
        self.text.len() + OVERHEAD
    }

    fn fields(&self) -> (&[u8], &[u8]) {
        self.text.split_at_checked(self.name).unwrap_or_default()
    }
}

/// One field of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecodedField<'a> {
    pub(super) meaning: FieldMeaning,
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
}

impl DecodedField<'_> {
    /// Returns the bytes that it is counted with.
    pub(super) fn size(&self) -> usize {
        self.name.len() + self.value.len() + OVERHEAD
    }
}

impl HpackDecoder {
    pub(super) fn new() -> Self {
        HpackDecoder {
            entries: VecDeque::new(),
            size: 0,
            most: MAX_TABLE,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Decodes a whole block, and has `take` called for every field of it.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(DecodedField<'_>),
    ) -> Result<(), BadBlock> {
        let mut rest = block;
        let mut is_first = true;
        while let Some(first) = rest.first() {
            match *first {
                0x80.. => {
                    let index = number(&mut rest, 7)?;
                    take(self.field(index)?);
                }
                0x40.. => self.literal(&mut rest, 6, true, &mut take)?,
                // The size of the table may change before the first field.
                0x20.. if is_first => {
                    let most = number(&mut rest, 5)?;
                    if most > MAX_TABLE {
                        return Err(BadBlock);
                    }
                    self.most = most;
                    self.evict();
                    continue;
                }
                0x20.. => return Err(BadBlock),
                _ => self.literal(&mut rest, 4, false, &mut take)?,
            }
            is_first = false;
        }
        Ok(())
    }

    /// Returns the bytes of all entries, counted anew.
    #[cfg(any(test, fuzzing))]
    pub(super) fn size(&self) -> usize {
        let size = self.entries.iter().map(TableEntry::size).sum();
        assert_eq!(self.size, size);
        size
    }

    #[inline]
    fn field(&self, index: usize) -> Result<DecodedField<'_>, BadBlock> {
        let nth = index.checked_sub(1).ok_or(BadBlock)?;
        if let (Some((name, value)), Some(meaning)) = (STATIC_TABLE.get(nth), STATIC_MEANINGS.get(nth)) {
            return Ok(DecodedField { meaning: *meaning, name: name.as_bytes(), value: value.as_bytes() });
        }
        let entry = self.entries.get(nth - STATIC_TABLE.len()).ok_or(BadBlock)?;
        let (name, value) = entry.fields();
        Ok(DecodedField { meaning: entry.meaning, name, value })
    }

    /// Decodes a field with a value of its own, and a name that may be one of the table.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        is_kept: bool,
        take: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<(), BadBlock> {
        let (mut coded_name, mut coded_value) =
            (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        let index = number(rest, prefix)?;
        let name = match index {
            0 => text(rest, &mut coded_name)?,
            _ => self.field(index)?.name,
        };
        let value = text(rest, &mut coded_value)?;
        let meaning = FieldMeaning::of(name, value);
        let field = DecodedField { meaning, name, value };
        take(field);
        if is_kept {
            let (entry, size) = (TableEntry::new(name, value, meaning), field.size());
            // What is longer than the table empties it.
            if size <= self.most {
                self.entries.push_front(entry);
                self.size += size;
                self.evict();
            } else {
                self.entries.clear();
                self.size = 0;
            }
        }
        // A long text must not keep its memory for ever.
        self.name = if coded_name.capacity() <= KEPT { coded_name } else { Vec::new() };
        self.value = if coded_value.capacity() <= KEPT { coded_value } else { Vec::new() };
        Ok(())
    }

    fn evict(&mut self) {
        while self.size > self.most {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size();
        }
    }
}

/// Takes a number that begins in the low bits of the first byte.
#[inline]
fn number(rest: &mut &[u8], prefix: u32) -> Result<usize, BadBlock> {
    let (first, after) = rest.split_first().ok_or(BadBlock)?;
    *rest = after;
    let most = (1 << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first().ok_or(BadBlock)?;
        *rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return if value <= MAX_NUMBER { Ok(value) } else { Err(BadBlock) };
        }
    }
    Err(BadBlock)
}

/// Takes a text: its length, and itself or its code, which is decoded into `coded`.
fn text<'t, 'a: 't>(rest: &mut &'a [u8], coded: &'t mut Vec<u8>) -> Result<&'t [u8], BadBlock> {
    let is_coded = rest.first().ok_or(BadBlock)? & 0x80 != 0;
    let len = number(rest, 7)?;
    let (found, after) = rest.split_at_checked(len).ok_or(BadBlock)?;
    *rest = after;
    if !is_coded {
        return Ok(found);
    }
    coded.clear();
    huffman::decode(found, coded).ok_or(BadBlock)?;
    Ok(coded)
}
