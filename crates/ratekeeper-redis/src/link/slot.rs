//! Which of a cluster's 16384 slots a key lies in.

/// The number of slots of every cluster.
pub(super) const SLOTS: usize = 16_384;

/// The CRC-16/XMODEM of every byte.
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

/// Returns the slot of a key, which is that of its hash tag if it has one: what is between the first `{` and the first `}`
/// after it, unless that is nothing.
pub(crate) fn of(key: &[u8]) -> usize {
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

    /// Keys of the specification of Redis Cluster and its corner cases, with the slots that `CLUSTER KEYSLOT` of a server
    /// gives them. `differential/slots.rs` compares with servers.
    const KNOWN_SLOTS: [(&str, usize); 14] = [
        ("", 0),
        ("foo", 12_182),
        ("123456789", 0x31C3),
        // The tag decides.
        ("user1000", 3_443),
        ("{user1000}.following", 3_443),
        ("{user1000}.followers", 3_443),
        // Nothing is between the first braces: the whole key.
        ("foo{}{bar}", 8_363),
        ("{}foo", 9_500),
        // The first `}` after the first `{` ends the tag.
        ("{bar", 4_015),
        ("foo{{bar}}zap", 4_015),
        // What follows the first tag does not matter.
        ("bar", 5_061),
        ("foo{bar}{zap}", 5_061),
        // No tag without an end.
        ("foo{bar", 15_278),
        // As this store writes it.
        ("rate_limiter:{user:42}:free", 15_880),
    ];

    #[test]
    fn slots_are_the_published_ones() {
        for (key, slot) in KNOWN_SLOTS {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }
}
