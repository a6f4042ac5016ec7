//! A client without a socket, for tests and for fuzzing: bytes go in as they come, in pieces of any length, and what is
//! answered comes out.

use std::cell::OnceCell;

use tokio::runtime::{Builder, Runtime};

use super::buffers::Buffers;
use super::protocol::{Progress, StreamProtocol};

/// No reply that follows another is longer than this beyond what may be gathered: the longest is that to a transaction.
const LONGEST: usize = 4 * 1024 * 1024;

/// A flag: the stream comes several times, so that what repeats is recognised and batches are filled.
const REPEATS: u8 = 4;
/// How often, and up to how many bytes.
const MANY: (usize, usize) = (600, 160 * 1024);

thread_local! {
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
}

/// Waits for a future in a runtime whose time goes on as soon as everybody waits for it.
///
/// # Panics
///
/// There can be no runtime.
pub(crate) fn in_runtime<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| {
        let made = || match Builder::new_current_thread().enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime: {error}"),
        };
        runtime.get_or_init(made).block_on(future)
    })
}

/// Returns the first byte, which is of flags, and the others, for [`pieces`]: the stream in them several times, if a flag says
/// so.
pub(crate) fn flagged(bytes: &[u8]) -> (u8, Vec<u8>) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut repeated = bytes.to_vec();
    if flags & REPEATS != 0 {
        let stream = bytes.get(4..).unwrap_or_default();
        let times = MANY.0.min(MANY.1 / stream.len().max(1));
        (1..times).for_each(|_| repeated.extend_from_slice(stream));
    }
    (*flags, repeated)
}

/// Returns the first four bytes, which tell how long the pieces are in which the rest comes, as those pieces; and the rest.
pub(crate) fn pieces(bytes: &[u8]) -> (impl Iterator<Item = &[u8]>, &[u8]) {
    let (lens, stream) = bytes.split_at(bytes.len().min(4));
    let mut rest = stream;
    let pieces = lens.iter().cycle().map_while(move |len| {
        let (piece, after) = rest.split_at(rest.len().min(usize::from(*len) + 1));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    });
    (pieces, stream)
}

/// What a client was answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamExchange {
    /// All replies.
    pub(crate) out: Vec<u8>,
    /// How the connection ended, if it did.
    pub(crate) end: Option<Progress>,
}

impl StreamExchange {
    /// Has a protocol answer bytes that come in these pieces.
    ///
    /// # Panics
    ///
    /// There is no room for the rest of a request that may still be one, or an answer is longer than it may be.
    pub(crate) fn of<'a>(
        protocol: &mut impl StreamProtocol,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let (mut exchange, mut buffers) = (StreamExchange::default(), Buffers::new());
        for piece in pieces {
            let mut rest = piece;
            while !rest.is_empty() && exchange.end.is_none() {
                let room = buffers.room();
                assert!(!room.is_empty(), "no room for the rest of a request");
                let (now, later) = rest.split_at(rest.len().min(room.len()));
                room[..now.len()].copy_from_slice(now);
                buffers.filled(now.len());
                rest = later;
                in_runtime(exchange.answer(protocol, &mut buffers));
            }
        }
        exchange
    }

    async fn answer(&mut self, protocol: &mut impl StreamProtocol, buffers: &mut Buffers) {
        while self.end.is_none() {
            let progress = protocol.answer(buffers).await;
            assert!(buffers.output.len() <= LONGEST, "{} bytes of replies at once", buffers.output.len());
            assert!(buffers.pending.is_empty(), "throttles that were read and not decided");
            self.out.append(&mut buffers.output);
            match progress {
                Progress::Starved => break,
                Progress::Full | Progress::Paused => {}
                Progress::Guess => protocol.pause().await,
                Progress::Quit | Progress::Broken => self.end = Some(progress),
            }
        }
    }
}
