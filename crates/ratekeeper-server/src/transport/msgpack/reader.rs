//! MessagePack to values: the part of it that a request needs, without recursion and without allocating.

/// Reads the values of a body, from left to right.
#[derive(Debug)]
pub(super) struct PackReader<'a> {
    bytes: &'a [u8],
}

/// One value. Kinds that no request uses are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackValue<'a> {
    Nil,
    Integer(i64),
    /// An integer beyond 64 bits with a sign.
    TooLarge,
    /// Text, or bytes of any kind.
    Bytes(&'a [u8]),
    /// This many values follow.
    Array(u32),
    /// This many pairs follow.
    Map(u32),
    Bool(bool),
    /// A float, an extension.
    Other,
}

/// The bytes end within a value, or are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedPack;

impl<'a> PackReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        PackReader { bytes }
    }

    /// Returns how many bytes were not read yet.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the next value; of an array or a map, its head.
    #[inline]
    pub(super) fn value(&mut self) -> Result<PackValue<'a>, MalformedPack> {
        let marker = self.fixed::<1>()?[0];
        Ok(match marker {
            0x00..=0x7f => PackValue::Integer(marker.into()),
            0xe0..=0xff => PackValue::Integer(i64::from(marker.cast_signed())),
            0xa0..=0xbf => PackValue::Bytes(self.take(usize::from(marker & 0x1f))?),
            0x90..=0x9f => PackValue::Array(u32::from(marker & 0x0f)),
            0x80..=0x8f => PackValue::Map(u32::from(marker & 0x0f)),
            0xc0 => PackValue::Nil,
            0xc1 => return Err(MalformedPack),
            0xc2 | 0xc3 => PackValue::Bool(marker == 0xc3),
            0xc4 | 0xd9 => self.bytes_of::<1>()?,
            0xc5 | 0xda => self.bytes_of::<2>()?,
            0xc6 | 0xdb => self.bytes_of::<4>()?,
            0xcc..=0xcf => self.unsigned(1 << (marker - 0xcc))?,
            0xd0..=0xd3 => self.signed(1 << (marker - 0xd0))?,
            0xdc => PackValue::Array(self.length::<2>()?),
            0xdd => PackValue::Array(self.length::<4>()?),
            0xde => PackValue::Map(self.length::<2>()?),
            0xdf => PackValue::Map(self.length::<4>()?),
            0xca => self.skip_bytes(4)?,
            0xcb => self.skip_bytes(8)?,
            // Extensions: a byte of type, then their data.
            0xc7 => self.extension::<1>()?,
            0xc8 => self.extension::<2>()?,
            0xc9 => self.extension::<4>()?,
            0xd4..=0xd8 => self.skip_bytes(1 + (1 << (marker - 0xd4)))?,
        })
    }

    /// Skips what is within a value whose head was read. Every value has at least one byte, so this ends with the bytes,
    /// whatever lengths they declare.
    pub(super) fn skip_within(&mut self, value: PackValue<'a>) -> Result<(), MalformedPack> {
        let within = |value: PackValue<'a>| match value {
            PackValue::Array(len) => u64::from(len),
            PackValue::Map(len) => 2 * u64::from(len),
            _ => 0,
        };
        let mut left = within(value);
        while left > 0 {
            left = (left - 1).checked_add(within(self.value()?)).ok_or(MalformedPack)?;
        }
        Ok(())
    }

    fn unsigned(&mut self, width: usize) -> Result<PackValue<'a>, MalformedPack> {
        let value = self.take(width)?.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Ok(i64::try_from(value).map_or(PackValue::TooLarge, PackValue::Integer))
    }

    fn signed(&mut self, width: usize) -> Result<PackValue<'a>, MalformedPack> {
        let bytes = self.take(width)?;
        let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
        let fill = if negative { -1i64 } else { 0 };
        Ok(PackValue::Integer(bytes.iter().fold(fill, |value, byte| value << 8 | i64::from(*byte))))
    }

    fn bytes_of<const N: usize>(&mut self) -> Result<PackValue<'a>, MalformedPack> {
        let len = self.length::<N>()?;
        Ok(PackValue::Bytes(self.take(len as usize)?))
    }

    fn extension<const N: usize>(&mut self) -> Result<PackValue<'a>, MalformedPack> {
        let len = self.length::<N>()?;
        self.skip_bytes(1 + len as usize)
    }

    fn skip_bytes(&mut self, len: usize) -> Result<PackValue<'a>, MalformedPack> {
        self.take(len).map(|_| PackValue::Other)
    }

    fn length<const N: usize>(&mut self) -> Result<u32, MalformedPack> {
        Ok(self.fixed::<N>()?.iter().fold(0, |len, byte| len << 8 | u32::from(*byte)))
    }

    fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], MalformedPack> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(MalformedPack)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], MalformedPack> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(MalformedPack)?;
        self.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(bytes: &[u8]) -> Result<PackValue<'_>, MalformedPack> {
        let mut reader = PackReader::new(bytes);
        let value = reader.value()?;
        reader.skip_within(value)?;
        assert_eq!(reader.left(), 0);
        Ok(value)
    }

    #[test]
    fn integers_of_every_width() {
        for (bytes, expected) in [
            (&b"\x7f"[..], 127),
            (b"\xff", -1),
            (b"\xe0", -32),
            (b"\xcc\xff", 255),
            (b"\xcd\xff\xff", 65_535),
            (b"\xce\xff\xff\xff\xff", 4_294_967_295),
            (b"\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", i64::MAX),
            (b"\xd0\x80", -128),
            (b"\xd1\xff\x00", -256),
            (b"\xd2\x80\x00\x00\x00", -2_147_483_648),
            (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", i64::MIN),
        ] {
            assert_eq!(one(bytes), Ok(PackValue::Integer(expected)));
        }
        assert_eq!(one(b"\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), Ok(PackValue::TooLarge));
    }

    #[test]
    fn declared_lengths_are_not_believed() {
        assert_eq!(one(b"\xdf\xff\xff\xff\xff"), Err(MalformedPack));
        assert_eq!(one(b"\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff"), Err(MalformedPack));
        assert_eq!(one(b"\xc6\xff\xff\xff\xffabc"), Err(MalformedPack));
        assert_eq!(one(b"\x92\xa1a\xc4\x01b"), Ok(PackValue::Array(2)));
        assert_eq!(one(b"\x81\xa1a\x91\xcb12345678"), Ok(PackValue::Map(1)));
    }

    proptest! {
        #![proptest_config(test_support::cases::config(2_000))]

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = PackReader::new(&bytes);
            while let Ok(value) = reader.value() {
                let _ = reader.skip_within(value);
            }
        }
    }
}
