//! Reads, answers and batches the commands of one client.

use super::client::RespClient;
use super::frame::FrameStep;
use super::framing::RespFraming;
use super::multi;
use crate::stream::{Buffers, HIGH_WATER, MAX_BATCH, MAX_COSTLY, Progress, StreamProtocol};

impl StreamProtocol for RespClient {
    /// Returns true while a command is incomplete, or a transaction is.
    fn is_midway(&self) -> bool {
        self.parser.is_midway() || self.session.transaction.is_some()
    }

    fn has_answered(&mut self) -> bool {
        std::mem::take(&mut self.answered)
    }

    async fn answer(&mut self, buffers: &mut Buffers) -> Progress {
        self.costly = 0;
        let end = loop {
            if buffers.output.len() >= HIGH_WATER {
                break Progress::Full;
            }
            if self.costly >= MAX_COSTLY {
                break Progress::Paused;
            }
            if !self.parser.is_midway()
                && self.session.takes_requests()
                && buffers.take_repeated::<RespFraming>()
            {
                self.answered = true;
                if buffers.pending.len() >= MAX_BATCH {
                    self.decide(buffers).await;
                    continue;
                }
            }
            match self.parser.step(buffers.unread()) {
                FrameStep::Command(len) => {
                    let end = match self.session.transaction {
                        None => self.command(buffers, len).await,
                        // Boxed: what is kept across this wait would otherwise enlarge every idle connection.
                        Some(_) => Box::pin(multi::queue(self, buffers, len)).await,
                    };
                    if end == Some(Progress::Guess) {
                        break Progress::Guess;
                    }
                    buffers.consume(len);
                    // What is queued for later does not prolong the time that a transaction has.
                    self.answered |= self.session.transaction.is_none();
                    if let Some(end) = end {
                        break end;
                    }
                }
                FrameStep::Incomplete => break Progress::Starved,
                FrameStep::Malformed(error) => {
                    self.decide(buffers).await;
                    self.reply(&mut buffers.output).error(&format!("ERR Protocol error: {error}"));
                    break Progress::Broken;
                }
            }
        };
        self.decide(buffers).await;
        end
    }

    async fn pause(&mut self) {
        self.resp.responder.check(&self.connection).pause().await;
        self.has_paused = true;
    }
}
