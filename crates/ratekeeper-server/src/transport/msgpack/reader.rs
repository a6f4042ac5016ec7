//! MessagePack to values: as much of it as a request needs, without recursion and without allocating.

/// What a body is made of, from left to right.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

/// One value. What a request has no use for is only told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Nil,
    Integer(i64),
    /// An integer beyond 64 bits with a sign.
    TooLarge,
    /// Text, or bytes of any kind.
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(u32),
    /// So many pairs follow.
    Map(u32),
    /// A boolean, a float, an extension.
    Other,
}

/// The bytes end within a value, or are no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes }
    }

    /// True when everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next value; of an array or a map, its head.
    #[inline]
    pub(super) fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let marker = self.fixed::<1>()?[0];
        Ok(match marker {
            0x00..=0x7f => Value::Integer(marker.into()),
            0xe0..=0xff => Value::Integer(i64::from(marker.cast_signed())),
            0xa0..=0xbf => Value::Bytes(self.take(usize::from(marker & 0x1f))?),
            0x90..=0x9f => Value::Array(u32::from(marker & 0x0f)),
            0x80..=0x8f => Value::Map(u32::from(marker & 0x0f)),
            0xc0 => Value::Nil,
            0xc1 => return Err(Malformed),
            0xc2 | 0xc3 => Value::Other,
            0xc4 | 0xd9 => self.bytes_of::<1>()?,
            0xc5 | 0xda => self.bytes_of::<2>()?,
            0xc6 | 0xdb => self.bytes_of::<4>()?,
            0xcc..=0xcf => self.unsigned(1 << (marker - 0xcc))?,
            0xd0..=0xd3 => self.signed(1 << (marker - 0xd0))?,
            0xdc => Value::Array(self.length::<2>()?),
            0xdd => Value::Array(self.length::<4>()?),
            0xde => Value::Map(self.length::<2>()?),
            0xdf => Value::Map(self.length::<4>()?),
            0xca => self.skip_bytes(4)?,
            0xcb => self.skip_bytes(8)?,
            // Extensions: a byte of type, then their data.
            0xc7 => self.extension::<1>()?,
            0xc8 => self.extension::<2>()?,
            0xc9 => self.extension::<4>()?,
            0xd4..=0xd8 => self.skip_bytes(1 + (1 << (marker - 0xd4)))?,
        })
    }

    /// Passes over what is within a value whose head was read. Every value is at least a byte long, so this ends with
    /// the bytes, whatever lengths they declare.
    pub(super) fn skip_within(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let within = |value: Value<'a>| match value {
            Value::Array(len) => u64::from(len),
            Value::Map(len) => 2 * u64::from(len),
            _ => 0,
        };
        let mut left = within(value);
        while left > 0 {
            left = (left - 1).checked_add(within(self.value()?)).ok_or(Malformed)?;
        }
        Ok(())
    }

    fn unsigned(&mut self, width: usize) -> Result<Value<'a>, Malformed> {
        let value = self.take(width)?.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        Ok(i64::try_from(value).map_or(Value::TooLarge, Value::Integer))
    }

    fn signed(&mut self, width: usize) -> Result<Value<'a>, Malformed> {
        let bytes = self.take(width)?;
        let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
        let fill = if negative { -1i64 } else { 0 };
        Ok(Value::Integer(bytes.iter().fold(fill, |value, byte| value << 8 | i64::from(*byte))))
    }

    fn bytes_of<const N: usize>(&mut self) -> Result<Value<'a>, Malformed> {
        let len = self.length::<N>()?;
        Ok(Value::Bytes(self.take(len as usize)?))
    }

    fn extension<const N: usize>(&mut self) -> Result<Value<'a>, Malformed> {
        let len = self.length::<N>()?;
        self.skip_bytes(1 + len as usize)
    }

    fn skip_bytes(&mut self, len: usize) -> Result<Value<'a>, Malformed> {
        self.take(len).map(|_| Value::Other)
    }

    fn length<const N: usize>(&mut self) -> Result<u32, Malformed> {
        Ok(self.fixed::<N>()?.iter().fold(0, |len, byte| len << 8 | u32::from(*byte)))
    }

    fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(bytes: &[u8]) -> Result<Value<'_>, Malformed> {
        let mut reader = Reader::new(bytes);
        let value = reader.value()?;
        reader.skip_within(value)?;
        assert!(reader.is_empty());
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
            assert_eq!(one(bytes), Ok(Value::Integer(expected)));
        }
        assert_eq!(one(b"\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), Ok(Value::TooLarge));
    }

    #[test]
    fn declared_lengths_are_not_believed() {
        assert_eq!(one(b"\xdf\xff\xff\xff\xff"), Err(Malformed));
        assert_eq!(one(b"\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff"), Err(Malformed));
        assert_eq!(one(b"\xc6\xff\xff\xff\xffabc"), Err(Malformed));
        assert_eq!(one(b"\x92\xa1a\xc4\x01b"), Ok(Value::Array(2)));
        assert_eq!(one(b"\x81\xa1a\x91\xcb12345678"), Ok(Value::Map(1)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(value) = reader.value() {
                let _ = reader.skip_within(value);
            }
        }
    }
}
