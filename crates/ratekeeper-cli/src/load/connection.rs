//! One connection's loop: sends what is due, reads what has come, measures.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{sleep, sleep_until, timeout};

use super::load_error::LoadFailure;
use super::measurement::{LoadAnswer, Measurement};
use super::schedule::Schedule;
use super::wire::{StreamWire, WireReply};
use super::work::KeyDraw;

/// How long answers are waited for after the end of a run. Later ones count as errors.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How long connecting, and the first answer, may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Timers fire on whole milliseconds, so the last of a wait is spent polling.
const AWAKE: Duration = Duration::from_millis(2);
/// The time between two attempts to connect again.
pub(super) const RECONNECT: Duration = Duration::from_millis(10);
const READ: usize = 64 << 10;

/// Connects, without Nagle's delay.
pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream =
        timeout(PATIENCE, TcpStream::connect(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends one request, to see whether a server of this protocol is there.
pub(super) async fn probe(
    address: SocketAddr,
    wire: &StreamWire,
    draw: &mut KeyDraw,
) -> Result<(), LoadFailure> {
    let stream = connect(address).await.map_err(LoadFailure::Connect)?;
    let mut pipe = Pipe::new(stream);
    wire.encode(&mut pipe.out, draw.key());
    let ask = async {
        loop {
            pipe.turn().await.map_err(|_| {
                let said = pipe.input.get(..pipe.input.len().min(40)).unwrap_or_default();
                LoadFailure::Foreign(said.escape_ascii().to_string())
            })?;
            match wire.decode(&pipe.input) {
                WireReply::Partial => {}
                WireReply::Whole(..) => return Ok(()),
                WireReply::Error(_, message) => return Err(LoadFailure::Refused(message)),
                WireReply::Foreign => {
                    let said = &pipe.input[..pipe.input.len().min(40)];
                    return Err(LoadFailure::Foreign(said.escape_ascii().to_string()));
                }
            }
        }
    };
    timeout(PATIENCE, ask).await.unwrap_or(Err(LoadFailure::Silent))
}

/// A socket with the bytes to write and the bytes that were read.
struct Pipe {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
}

impl Pipe {
    fn new(stream: TcpStream) -> Self {
        Pipe { stream, out: Vec::new(), written: 0, input: Vec::with_capacity(READ) }
    }

    /// Writes what it can, and waits until bytes have come or more can be written.
    async fn turn(&mut self) -> io::Result<()> {
        self.write()?;
        let interest =
            if self.out.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        let ready = self.stream.ready(interest).await?;
        if ready.is_readable() {
            self.input.reserve(READ);
            match self.stream.try_read_buf(&mut self.input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.try_write(&self.out[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}

/// Sends by schedule until its end, and waits for the answers.
pub(super) async fn drive(
    stream: TcpStream,
    address: SocketAddr,
    wire: StreamWire,
    draw: KeyDraw,
    schedule: Schedule,
) -> Measurement {
    let mut drive = Drive {
        wire,
        draw,
        schedule,
        next: schedule.first,
        due: VecDeque::new(),
        measurement: Measurement::default(),
    };
    let mut last = schedule.until;
    let mut stream = Some(stream);
    let mut give_up = pin!(sleep_until((schedule.until + GRACE).into()));
    while !drive.is_done(Instant::now()) {
        let attempt = async {
            let stream = match stream.take() {
                Some(stream) => stream,
                None => connect(address).await?,
            };
            drive.converse(Pipe::new(stream)).await
        };
        let ended = tokio::select! {
            ended = attempt => ended,
            () = &mut give_up => break,
        };
        if ended.is_err() {
            // Nobody is there: without a rate, every attempt is a request that failed.
            if drive.lose() == 0 && schedule.every.is_none() {
                let now = Instant::now();
                drive.count(LoadAnswer::Error, now, now);
            }
            sleep(RECONNECT).await;
        }
    }
    drive.lose_everything();
    last = last.max(Instant::now());
    drive.measurement.elapsed = last.saturating_duration_since(schedule.from);
    drive.measurement
}

struct Drive {
    wire: StreamWire,
    draw: KeyDraw,
    schedule: Schedule,
    /// When the next request is due, if requests have times.
    next: Instant,
    /// When the requests in flight were due, oldest first.
    due: VecDeque<Instant>,
    measurement: Measurement,
}

impl Drive {
    fn is_done(&self, now: Instant) -> bool {
        let sent_all = match self.schedule.every {
            Some(_) => self.next >= self.schedule.until,
            None => now >= self.schedule.until,
        };
        sent_all && self.due.is_empty()
    }

    async fn converse(&mut self, mut pipe: Pipe) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.send(&mut pipe.out, now);
            if self.is_done(now) {
                return Ok(());
            }
            let may_send = self.due.len() < self.schedule.depth && self.next < self.schedule.until;
            if self.schedule.every.is_some() && may_send {
                tokio::select! {
                    biased;
                    turned = pipe.turn() => turned?,
                    () = wait_until(self.next, now) => {}
                }
            } else {
                pipe.turn().await?;
            }
            self.receive(&mut pipe.input)?;
        }
    }

    fn send(&mut self, out: &mut Vec<u8>, now: Instant) {
        while self.due.len() < self.schedule.depth {
            let at = match self.schedule.every {
                None if now < self.schedule.until => now,
                Some(every) if self.next <= now && self.next < self.schedule.until => {
                    let at = self.next;
                    self.next += every;
                    at
                }
                _ => return,
            };
            self.due.push_back(at);
            self.wire.encode(out, self.draw.key());
        }
    }

    fn receive(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let (mut read, now) = (0, Instant::now());
        loop {
            let (len, answer) = match self.wire.decode(&input[read..]) {
                WireReply::Partial => break,
                WireReply::Whole(len, answer) => (len, answer),
                WireReply::Error(len, _) => (len, LoadAnswer::Error),
                WireReply::Foreign => return Err(io::ErrorKind::InvalidData.into()),
            };
            read += len;
            // More answers than questions are no answers.
            let due = self.due.pop_front().ok_or(io::ErrorKind::InvalidData)?;
            self.count(answer, due, now);
        }
        input.drain(..read);
        Ok(())
    }

    fn count(&mut self, answer: LoadAnswer, due: Instant, now: Instant) {
        if due >= self.schedule.from {
            self.measurement.count(answer, now.saturating_duration_since(due));
        }
    }

    /// Counts every request in flight as an error, because the connection is gone, and returns how many there were.
    fn lose(&mut self) -> usize {
        let (now, lost) = (Instant::now(), self.due.len());
        while let Some(due) = self.due.pop_front() {
            self.count(LoadAnswer::Error, due, now);
        }
        lost
    }

    /// Counts every request as an error that is in flight, or was due and not even sent.
    fn lose_everything(&mut self) {
        self.lose();
        let now = Instant::now();
        while let Some(every) = self.schedule.every
            && self.next < self.schedule.until
        {
            let due = self.next;
            self.count(LoadAnswer::Error, due, now);
            self.next += every;
        }
    }
}

pub(super) async fn wait_until(due: Instant, now: Instant) {
    match due.saturating_duration_since(now).checked_sub(AWAKE) {
        Some(asleep) => sleep(asleep).await,
        None => tokio::task::yield_now().await,
    }
}
