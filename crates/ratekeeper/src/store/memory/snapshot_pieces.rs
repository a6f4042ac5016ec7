//! Bytes that are gathered without being moved.

/// How long a piece gets, unless what is added at once is longer.
const PIECE: usize = 1 << 20;

/// Bytes in pieces: what was added stays where it is, however much follows. One run of bytes that grows would be copied again
/// and again, and would need its length once more each time.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Pieces {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if !self.last.is_empty() && self.last.len() + bytes.len() > PIECE {
            let next = Vec::with_capacity(PIECE.max(bytes.len()));
            self.full.push(std::mem::replace(&mut self.last, next));
        }
        self.last.extend_from_slice(bytes);
    }

    pub(super) fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    /// Moves all of it to the end of these bytes: each piece is given back before the next one is copied.
    pub(super) fn move_to(self, out: &mut Vec<u8>) {
        for piece in self.full {
            out.extend_from_slice(&piece);
        }
        out.extend_from_slice(&self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Pieces};

    #[test]
    fn bytes_come_out_as_they_were_added() {
        let mut pieces = Pieces::default();
        let mut expected = Vec::new();
        for len in [0, 1, 3, PIECE - 4, 1, PIECE, 2 * PIECE + 7, 0, 5] {
            let bytes: Vec<u8> = (expected.len()..).map(|at| at.to_le_bytes()[0]).take(len).collect();
            pieces.add(&bytes);
            expected.extend_from_slice(&bytes);
            assert_eq!(pieces.len(), expected.len());
        }
        let mut out = b"before".to_vec();
        pieces.move_to(&mut out);
        assert_eq!(out.strip_prefix(b"before"), Some(&*expected));
    }
}
