//! One gRPC connection: so many calls at a time over HTTP/2.

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

use super::connection::{GRACE, PATIENCE, RECONNECT, connect, wait_until};
use super::load_error::LoadFailure;
use super::measurement::{LoadAnswer, Measurement};
use super::rls_request::RlsTemplate;
use super::schedule::Schedule;
use super::work::{KeyDraw, ThrottleNumbers};

/// Bytes before a message: whether it is compressed, and its length.
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

/// The first field of `throttlecrab.ThrottleResponse`; the others are not of interest.
#[derive(prost::Message)]
struct ThrottleVerdict {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

/// The first field of `envoy.service.ratelimit.v3.RateLimitResponse`; the others are not of interest.
#[derive(prost::Message)]
struct RlsVerdict {
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

/// Makes calls of one method.
#[derive(Clone, Debug)]
pub(super) struct GrpcCaller {
    question: Question,
    uri: String,
}

/// What is called.
#[derive(Clone, Debug)]
enum Question {
    Throttle(ThrottleNumbers),
    Rls(RlsTemplate),
}

/// Why a call failed.
#[derive(Debug)]
enum CallError {
    /// The connection failed, or is not HTTP/2.
    Connection,
    /// The server answered with this status.
    Status(String),
}

impl From<h2::Error> for CallError {
    fn from(_: h2::Error) -> Self {
        CallError::Connection
    }
}

impl GrpcCaller {
    pub(super) fn throttling(throttle: ThrottleNumbers, host: &str) -> Self {
        let uri = format!("http://{host}/throttlecrab.RateLimiter/Throttle");
        GrpcCaller { question: Question::Throttle(throttle), uri }
    }

    pub(super) fn asking(template: &RlsTemplate, host: &str) -> Self {
        let uri = format!("http://{host}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
        GrpcCaller { question: Question::Rls(template.clone()), uri }
    }

    async fn call(&self, sender: &SendRequest<Bytes>, key: &[u8; 20]) -> Result<LoadAnswer, CallError> {
        let request = Request::post(&self.uri)
            .version(Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| CallError::Status(error.to_string()))?;
        let mut sender = sender.clone().ready().await?;
        let (response, mut stream) = sender.send_request(request, false)?;
        stream.send_data(self.question.message(key), true)?;
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
        let is_allowed = reply.get(PREFIX..).and_then(|message| self.question.verdict(message));
        match is_allowed.ok_or_else(|| CallError::Status("no message".to_owned()))? {
            true => Ok(LoadAnswer::Allowed),
            false => Ok(LoadAnswer::Denied),
        }
    }
}

impl Question {
    /// Returns whether a reply allows; none if it is no reply.
    fn verdict(&self, message: &[u8]) -> Option<bool> {
        match self {
            Question::Throttle(_) => ThrottleVerdict::decode(message).ok().map(|verdict| verdict.allowed),
            Question::Rls(_) => match RlsVerdict::decode(message).ok()?.overall_code {
                1 => Some(true),
                2 => Some(false),
                _ => None,
            },
        }
    }

    fn message(&self, key: &[u8; 20]) -> Bytes {
        let ThrottleNumbers { burst, count, period } = match self {
            Question::Throttle(throttle) => *throttle,
            Question::Rls(template) => return template.message(key),
        };
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

/// Shakes hands in HTTP/2. The connection lives as long as the task that drives it.
async fn handshake(stream: TcpStream, tasks: &mut JoinSet<()>) -> Result<SendRequest<Bytes>, CallError> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    tasks.spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Makes one call, to see whether a server of this protocol is there.
pub(super) async fn probe(
    address: SocketAddr,
    caller: &GrpcCaller,
    draw: &mut KeyDraw,
) -> Result<(), LoadFailure> {
    let stream = connect(address).await.map_err(LoadFailure::Connect)?;
    let mut tasks = JoinSet::new();
    let ask = async {
        let sender = handshake(stream, &mut tasks).await?;
        caller.call(&sender, draw.key()).await
    };
    match timeout(PATIENCE, ask).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(CallError::Connection)) => Err(LoadFailure::Foreign(String::new())),
        Ok(Err(CallError::Status(message))) => Err(LoadFailure::Refused(message)),
        Err(_) => Err(LoadFailure::Silent),
    }
}

/// What the tasks that call over one connection share.
#[derive(Debug)]
struct CallState {
    draw: KeyDraw,
    /// When the next call is due, if calls have times.
    next: Instant,
    measurement: Measurement,
}

/// Calls by schedule until its end, and waits for the answers.
pub(super) async fn drive(
    stream: TcpStream,
    address: SocketAddr,
    caller: GrpcCaller,
    draw: KeyDraw,
    schedule: Schedule,
) -> Measurement {
    let shared =
        Arc::new(Mutex::new(CallState { draw, next: schedule.first, measurement: Measurement::default() }));
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
        count(&mut shared.measurement, &schedule, LoadAnswer::Error, due, now);
    }
    let mut measurement = shared.measurement.clone();
    measurement.elapsed = now.max(schedule.until).saturating_duration_since(schedule.from);
    measurement
}

/// Makes one call after another, until nothing is due any more or the connection fails.
async fn one_caller(
    caller: GrpcCaller,
    sender: SendRequest<Bytes>,
    shared: Arc<Mutex<CallState>>,
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
        let answer = *outcome.as_ref().unwrap_or(&LoadAnswer::Error);
        count(&mut lock().measurement, &schedule, answer, due, Instant::now());
        if matches!(outcome, Err(CallError::Connection)) {
            return;
        }
    }
}

/// Takes the time of the next call; `None` if no more calls are due.
fn due(shared: &mut CallState, schedule: &Schedule, now: Instant) -> Option<Instant> {
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

fn is_done(shared: &Mutex<CallState>, schedule: &Schedule) -> bool {
    match schedule.every {
        None => Instant::now() >= schedule.until,
        Some(_) => shared.lock().unwrap_or_else(PoisonError::into_inner).next >= schedule.until,
    }
}

fn count(measurement: &mut Measurement, schedule: &Schedule, answer: LoadAnswer, due: Instant, now: Instant) {
    if due >= schedule.from {
        measurement.count(answer, now.saturating_duration_since(due));
    }
}
