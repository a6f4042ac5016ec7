//! Spans of requests, sent to a collector of our own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;
use serde_json::json;

use crate::wire::grpc::{asked_with_field, throttled};
use crate::wire::http::{curl, get};
use test_support::port::free_port;
use test_support::proto::AcquireRequest;
use test_support::server::{Folder, PATIENCE, Server, until};

const PLANS: &str = "[plans.free]\nlimits = [\"1/day\"]\n";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The parts of `opentelemetry/proto/collector/trace/v1` that are checked.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Described>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct Described {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(bool, optional, tag = "2")]
    flag: Option<bool>,
    #[prost(int64, optional, tag = "3")]
    number: Option<i64>,
}

/// Returns attributes as `key=value`.
fn told(attributes: &[Attribute]) -> Vec<String> {
    let value = |value: &AttributeValue| match value {
        AttributeValue { text: Some(text), .. } => text.clone(),
        AttributeValue { flag: Some(flag), .. } => flag.to_string(),
        AttributeValue { number: Some(number), .. } => number.to_string(),
        _ => panic!("no value"),
    };
    attributes.iter().map(|a| format!("{}={}", a.key, value(a.value.as_ref().unwrap()))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A collector that answers 200, and the first time another status.
struct Collector {
    address: SocketAddr,
    taken: Receiver<Vec<u8>>,
}

impl Collector {
    fn start(first: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, (sender, taken)) = (listener.local_addr().unwrap(), mpsc::channel());
        thread::spawn(move || {
            let mut status = first;
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    reader.read_line(&mut head).unwrap();
                }
                assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
                assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let mut body = vec![0; length.parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let answer = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
                if status == 200 && sender.send(body).is_err() {
                    return;
                }
                status = 200;
            }
        });
        Collector { address, taken }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for this number of spans.
    fn spans(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        while spans.len() < count {
            let body = self.taken.recv_timeout(PATIENCE).expect("spans come");
            let hidden = b"user:secret";
            assert!(!body.windows(hidden.len()).any(|part| part == hidden), "no key leaves the server");
            for of_resource in Export::decode(&*body).unwrap().resource_spans {
                let service = told(&of_resource.resource.unwrap().attributes);
                assert!(service.contains(&"service.name=ratekeeper".to_owned()), "{service:?}");
                spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        assert_eq!(spans.len(), count, "{spans:?}");
        spans
    }
}

const JSON: &str = "content-type: application/json";

fn field(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}")
}

#[test]
fn a_request_over_http_belongs_to_the_trace_of_its_caller() {
    let folder = Folder::new("traces-http");
    let (collector, config) = (Collector::start(200), folder.write("plans.toml", PLANS));
    let server = Server::with(&["--config", &config, "--otlp", &collector.url()]);
    let body = json!({ "key": "user:secret", "plan": "free" }).to_string();
    let now = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
    let began = now();
    let ask = |header: &str| curl(&server, "/v1/acquire", &["-H", header, "-H", JSON], Some(&body)).status;
    assert_eq!((ask(&field("01")), ask(&field("01"))), (200, 429));
    // These are not recorded: their callers do not record them, or do not tell.
    assert_eq!((ask(&field("00")), ask("x: y"), ask("traceparent: mumble")), (429, 429, 429));
    let unknown = json!({ "key": "user:secret", "plan": "none" }).to_string();
    assert_eq!(curl(&server, "/v1/acquire", &["-H", &field("01"), "-H", JSON], Some(&unknown)).status, 404);
    let spans = collector.spans(3);
    for span in &spans {
        assert_eq!((hex(&span.trace), hex(&span.parent)), (TRACE.to_owned(), PARENT.to_owned()));
        assert_eq!((span.name.as_str(), span.kind, span.id.len()), ("POST /v1/acquire", 2, 8));
        let ended = now();
        assert!(
            began <= span.start && span.start <= span.end && span.end <= ended,
            "{began} {span:?} {ended}"
        );
        assert_eq!(span.status, None, "a denial is no failure, and neither is a mistake of the client");
    }
    let attributes: Vec<Vec<String>> = spans.iter().map(|span| told(&span.attributes)).collect();
    let common = ["http.request.method=POST", "http.route=/v1/acquire"];
    let allowed = ["ratekeeper.allowed=true", "ratekeeper.plan=free", "ratekeeper.rule=per-day"];
    assert_eq!(attributes[0], [&common[..], &allowed, &["http.response.status_code=200"]].concat());
    assert!(attributes[1].contains(&"ratekeeper.reason=quota_exceeded".to_owned()), "{attributes:?}");
    assert!(attributes[1].contains(&"http.response.status_code=429".to_owned()), "{attributes:?}");
    assert_eq!(attributes[2], [&common[..], &["http.response.status_code=404"]].concat());
}

/// They waited for the next second, and were lost when the process ended.
#[test]
fn spans_that_wait_are_sent_at_the_stop() {
    let folder = Folder::new("traces-stop");
    let (collector, config) = (Collector::start(200), folder.write("plans.toml", PLANS));
    let server = Server::with(&["--config", &config, "--otlp", &collector.url()]);
    assert_eq!(curl(&server, "/v1/keys/user:secret", &["-H", &field("01")], None).status, 200);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(collector.spans(1)[0].name, "GET /v1/keys/{key}");
    // A collector that takes nothing does not prevent the stop.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = Server::with(&["--config", &config, "--otlp", &url]);
    assert_eq!(curl(&server, "/v1/keys/user:secret", &["-H", &field("01")], None).status, 200);
    server.signal("TERM");
    assert!(server.await_log("not all spans could be sent").contains("WARN"));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_call_of_grpc_belongs_to_the_trace_of_its_caller() {
    let folder = Folder::new("traces-grpc");
    // A collector that is busy gets the spans again.
    let (collector, config) = (Collector::start(503), folder.write("plans.toml", PLANS));
    let server = Server::with(&["--config", &config, "--otlp", &collector.url()]);
    let request = |plan: &str| AcquireRequest {
        key: "user:secret".to_owned(),
        plans: vec![plan.to_owned()],
        ..Default::default()
    };
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let ask = |plan: &str| asked_with_field(&server, "Acquire", &request(plan), ("traceparent", &parent));
    assert!(ask("free").is_ok());
    assert_eq!(ask("none").unwrap_err(), "5");
    let spans = collector.spans(2);
    for span in &spans {
        assert_eq!((hex(&span.trace), hex(&span.parent)), (TRACE.to_owned(), PARENT.to_owned()));
        assert_eq!((span.name.as_str(), span.kind), ("ratekeeper.v1.RateLimiter/Acquire", 2));
    }
    let first = told(&spans[0].attributes);
    for expected in
        ["rpc.system=grpc", "rpc.method=Acquire", "ratekeeper.allowed=true", "rpc.grpc.status_code=0"]
    {
        assert!(first.contains(&expected.to_owned()), "{expected}: {first:?}");
    }
    assert!(told(&spans[1].attributes).contains(&"rpc.grpc.status_code=5".to_owned()));
}

#[test]
fn requests_without_a_trace_are_sampled_and_probes_are_not_traced() {
    let collector = Collector::start(200);
    let server = Server::with(&["--otlp", &collector.url(), "--otlp-sample", "100%"]);
    for path in ["/health", "/ready", "/metrics", "/v1/plans"] {
        assert_eq!(get(&server, path).status, 200);
    }
    let spans = collector.spans(1);
    assert_eq!(
        (spans[0].name.as_str(), spans[0].parent.len(), spans[0].trace.len()),
        ("GET /v1/plans", 0, 16)
    );
    assert!(spans[0].trace.iter().any(|byte| *byte != 0));
    until("it is counted", || {
        get(&server, "/metrics").body.contains("ratekeeper_spans_total{result=\"sent\"} 1\n")
    });
    assert_eq!(throttled(&server, "k"), Ok(true));
    let spans = collector.spans(1);
    assert_eq!(spans[0].name, "throttlecrab.RateLimiter/Throttle");
}

#[test]
fn spans_for_a_collector_that_is_away_are_logged_and_counted() {
    let gone = format!("127.0.0.1:{}", free_port());
    let server = Server::with(&["--otlp", &format!("http://{gone}"), "--otlp-sample", "100%"]);
    for _ in 0..10 {
        assert_eq!(get(&server, "/v1/plans").status, 200);
    }
    let said = server.await_log("otlp: spans are lost");
    assert!(said.contains("WARN") && said.contains(&gone), "{said}");
    until("they are counted", || {
        let page = get(&server, "/metrics").body;
        let line =
            page.lines().find_map(|line| line.strip_prefix("ratekeeper_spans_total{result=\"dropped\"} "));
        line.is_some_and(|count| count != "0")
    });
}
