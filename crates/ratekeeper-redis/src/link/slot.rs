//! Which of a cluster's 16384 slots a key lies in.

/// How many slots there are.
pub(super) const SLOTS: usize = 16_384;

/// CRC-16/XMODEM of one byte, for every byte.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

/// The slot of a key: of what is between its first braces, if there is something between them.
pub(super) fn of(key: &[u8]) -> usize {
    let tag = memchr(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        memchr(b'}', rest).filter(|close| *close > 0).map(|close| &rest[..close])
    });
    let crc = tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ TABLE[usize::from(high ^ byte)]
    });
    usize::from(crc) % SLOTS
}

fn memchr(byte: u8, within: &[u8]) -> Option<usize> {
    within.iter().position(|found| *found == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` of a real server answers.
    #[test]
    fn slots_are_those_of_the_server() {
        for (key, slot) in [("foo", 12182), ("123456789", 12739), ("", 0)] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(of(b"rk:{user:42}:gold"), of(b"user:42"));
        assert_eq!(of(b"{}foo"), of(b"{}foo"));
        assert_ne!(of(b"{}foo"), of(b""), "nothing between the braces: the whole key");
        assert_eq!(of(b"foo{{bar}}zap"), of(b"{bar"));
        assert_eq!(of(b"foo{bar}{zap}"), of(b"bar"));
    }
}
