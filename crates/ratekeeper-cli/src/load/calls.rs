//! The same for gRPC: so many calls at a time on one HTTP/2 connection.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{Request, Version};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};

use super::connection::{GRACE, PATIENCE, ProbeError, RECONNECT, Schedule, connect, wait_until};
use super::tally::{Answer, Tally};
use super::work::{Draw, Throttle};

/// Whether a message is compressed, and its length.
const PREFIX: usize = 5;

/// `throttlecrab.ThrottleRequest`, as `proto/` has it.
#[derive(prost::Message)]
struct ThrottleCall {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, optional, tag = "5")]
    quantity: Option<i32>,
}

/// What is of interest of `throttlecrab.ThrottleResponse`.
#[derive(prost::Message)]
struct ThrottleVerdict {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

/// Makes calls.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    throttle: Throttle,
    uri: String,
}

/// Why a call failed.
#[derive(Debug)]
enum CallError {
    /// The connection is of no more use, or was none of HTTP/2.
    Connection,
    /// The server said no.
    Status(String),
}

impl From<h2::Error> for CallError {
    fn from(_: h2::Error) -> Self {
        CallError::Connection
    }
}

impl Caller {
    pub(super) fn new(throttle: Throttle, host: &str) -> Self {
        Caller { throttle, uri: format!("http://{host}/throttlecrab.RateLimiter/Throttle") }
    }

    async fn call(&self, sender: &SendRequest<Bytes>, key: &[u8; 20]) -> Result<Answer, CallError> {
        let request = Request::post(&self.uri)
            .version(Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| CallError::Status(error.to_string()))?;
        let mut sender = sender.clone().ready().await?;
        let (response, mut stream) = sender.send_request(request, false)?;
        stream.send_data(self.message(key), true)?;
        let response = response.await?;
        if let Some(status) = response.headers().get("grpc-status") {
            let message = response.headers().get("grpc-message").map(http::HeaderValue::as_bytes);
            let message = String::from_utf8_lossy(message.unwrap_or_default()).into_owned();
            return Err(CallError::Status(format!("status {} {message}", status.to_str().unwrap_or("?"))));
        }
        if response.status() != http::StatusCode::OK {
            return Err(CallError::Status(response.status().to_string()));
        }
        let mut body = response.into_body();
        let mut reply = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            reply.extend_from_slice(&data);
            body.flow_control().release_capacity(data.len())?;
        }
        let reply = reply.get(PREFIX..).and_then(|message| ThrottleVerdict::decode(message).ok());
        let reply = reply.ok_or_else(|| CallError::Status("no message".to_owned()))?;
        Ok(if reply.allowed { Answer::Allowed } else { Answer::Denied })
    }

    fn message(&self, key: &[u8; 20]) -> Bytes {
        let Throttle { burst, count, period } = self.throttle;
        let request = ThrottleCall {
            key: String::from_utf8_lossy(key).into_owned(),
            max_burst: burst,
            count_per_period: count,
            period,
            quantity: Some(1),
        };
        let len = request.encoded_len();
        let mut out = BytesMut::with_capacity(PREFIX + len);
        out.put_u8(0);
        out.put_u32(u32::try_from(len).unwrap_or(0));
        // There is room for all of it.
        let _ = request.encode(&mut out);
        out.freeze()
    }
}

/// Begins to speak HTTP/2. The connection lives as long as the task that drives it.
async fn handshake(stream: TcpStream, tasks: &mut JoinSet<()>) -> Result<SendRequest<Bytes>, CallError> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    tasks.spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Asks once, to see whether there is anybody who understands.
pub(super) async fn probe(address: SocketAddr, caller: &Caller, draw: &mut Draw) -> Result<(), ProbeError> {
    let stream = connect(address).await.map_err(ProbeError::Connect)?;
    let mut tasks = JoinSet::new();
    let ask = async {
        let sender = handshake(stream, &mut tasks).await?;
        caller.call(&sender, draw.key()).await
    };
    match timeout(PATIENCE, ask).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(CallError::Connection)) => Err(ProbeError::Foreign(String::new())),
        Ok(Err(CallError::Status(message))) => Err(ProbeError::Refused(message)),
        Err(_) => Err(ProbeError::Silent),
    }
}

/// What the callers of one connection share.
#[derive(Debug)]
struct Shared {
    draw: Draw,
    /// When the next call is due, if calls have times.
    next: Instant,
    tally: Tally,
}

/// Calls by schedule until its end, and waits for the answers.
pub(super) async fn drive(
    stream: TcpStream,
    address: SocketAddr,
    caller: Caller,
    draw: Draw,
    schedule: Schedule,
) -> Tally {
    let shared = Arc::new(Mutex::new(Shared { draw, next: schedule.first, tally: Tally::default() }));
    let mut stream = Some(stream);
    while !is_done(&shared, &schedule) && Instant::now() < schedule.until + GRACE {
        let connected = match stream.take() {
            Some(stream) => Ok(stream),
            None => connect(address).await,
        };
        let mut driver = JoinSet::new();
        let sender = match connected {
            Ok(stream) => handshake(stream, &mut driver).await,
            Err(_) => Err(CallError::Connection),
        };
        let Ok(sender) = sender else {
            sleep(RECONNECT).await;
            continue;
        };
        let mut callers = JoinSet::new();
        for _ in 0..schedule.depth {
            callers.spawn(one_caller(caller.clone(), sender.clone(), shared.clone(), schedule));
        }
        while callers.join_next().await.is_some() {}
    }
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    // What was due and not even sent is lost.
    while let Some(due) = due(&mut shared, &schedule, now).filter(|_| schedule.every.is_some()) {
        count(&mut shared.tally, &schedule, Answer::Error, due, now);
    }
    let mut tally = shared.tally.clone();
    tally.elapsed = now.max(schedule.until).saturating_duration_since(schedule.from);
    tally
}

/// One call after another, until nothing is due any more or the connection is of no more use.
async fn one_caller(
    caller: Caller,
    sender: SendRequest<Bytes>,
    shared: Arc<Mutex<Shared>>,
    schedule: Schedule,
) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let (due, key) = {
            let mut shared = lock();
            let Some(due) = due(&mut shared, &schedule, Instant::now()) else { return };
            (due, *shared.draw.key())
        };
        let mut now = Instant::now();
        while now < due {
            wait_until(due, now).await;
            now = Instant::now();
        }
        let end = (schedule.until + GRACE).into();
        let outcome = timeout_at(end, caller.call(&sender, &key)).await.unwrap_or(Err(CallError::Connection));
        let answer = *outcome.as_ref().unwrap_or(&Answer::Error);
        count(&mut lock().tally, &schedule, answer, due, Instant::now());
        if matches!(outcome, Err(CallError::Connection)) {
            return;
        }
    }
}

/// The time of the next call, which is thereby taken; none if there is no more.
fn due(shared: &mut Shared, schedule: &Schedule, now: Instant) -> Option<Instant> {
    match schedule.every {
        None => (now < schedule.until).then_some(now),
        Some(every) => {
            let due = shared.next;
            (due < schedule.until).then(|| {
                shared.next += every;
                due
            })
        }
    }
}

fn is_done(shared: &Mutex<Shared>, schedule: &Schedule) -> bool {
    match schedule.every {
        None => Instant::now() >= schedule.until,
        Some(_) => shared.lock().unwrap_or_else(PoisonError::into_inner).next >= schedule.until,
    }
}

fn count(tally: &mut Tally, schedule: &Schedule, answer: Answer, due: Instant, now: Instant) {
    if due >= schedule.from {
        tally.count(answer, now.saturating_duration_since(due));
    }
}
