//! What an administrator may do, asked for over each transport.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use serde_json::json;

use crate::console::web::send;
use test_support::proto::{DebitRequest, RefundRequest, ResetRequest};
use test_support::server::{PATIENCE, Raw, Server};

pub(crate) const TRANSPORTS: [&str; 4] = ["resp", "http", "grpc", "msgpack"];
pub(crate) const VERBS: [&str; 3] = ["refund", "debit", "reset"];

/// Returns where the server can be reached from another machine: an address of this one that is not loopback. Who asks by
/// it comes from elsewhere, as far as the server can tell.
///
/// # Panics
///
/// This machine has no such address. Then nothing about clients from elsewhere can be tested here, and that must be seen.
pub(crate) fn outward() -> IpAddr {
    // Nothing is sent: this asks the system which address it would send from. One network may be routed where others are not.
    let found = ["192.0.2.1:9", "10.0.0.1:9", "172.16.0.1:9", "192.168.0.1:9"].into_iter().find_map(|to| {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
    });
    found.expect(
        "this machine has no address but loopback, so no client from elsewhere can be tested; give it one, such as by \
         `ip addr add 10.0.0.2/24 dev lo`",
    )
}

/// Flags of a server that listens everywhere.
pub(crate) const EVERYWHERE: [&str; 8] =
    ["--resp", "0.0.0.0:0", "--http", "0.0.0.0:0", "--grpc", "0.0.0.0:0", "--msgpack", "0.0.0.0:0"];

/// Asks for a verb of the key `k` under the plan `gold`, from an address of this machine. Returns why it was refused, if
/// it was.
pub(crate) fn ask(
    server: &Server,
    from: IpAddr,
    transport: &str,
    verb: &str,
    token: Option<&str>,
) -> Result<(), String> {
    let address = SocketAddr::new(from, server.address(transport).port());
    match transport {
        "resp" => resp(address, verb, token),
        "http" => http(address, verb, token),
        "grpc" => grpc(address, verb, token),
        _ => msgpack(address, verb, token),
    }
}

fn resp(address: SocketAddr, verb: &str, token: Option<&str>) -> Result<(), String> {
    let mut raw = Raw::connect(address);
    if let Some(token) = token {
        let said = raw.ask(&format!("AUTH {token}"));
        if said != "+OK" {
            return Err(said);
        }
    }
    let said = raw.ask(&format!("{} k gold", verb.to_uppercase()));
    if said.starts_with('-') { Err(said) } else { Ok(()) }
}

fn http(address: SocketAddr, verb: &str, token: Option<&str>) -> Result<(), String> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut fields = vec![("content-type", "application/json")];
    fields.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let body = json!({ "key": "k", "plan": "gold" }).to_string();
    let reply = send(address, "POST", &format!("/v1/{verb}"), &fields, Some(&body));
    if reply.status == 200 { Ok(()) } else { Err(reply.problem().1) }
}

fn grpc(address: SocketAddr, verb: &str, token: Option<&str>) -> Result<(), String> {
    let (key, plans) = ("k".to_owned(), vec!["gold".to_owned()]);
    let (method, message) = match verb {
        "refund" => ("Refund", RefundRequest { key, plans, ..Default::default() }.encode_to_vec()),
        "debit" => ("Debit", DebitRequest { key, plans, ..Default::default() }.encode_to_vec()),
        _ => ("Reset", ResetRequest { key, plans, ..Default::default() }.encode_to_vec()),
    };
    call(
        address,
        method,
        &message,
        &token.map(|token| ("authorization", format!("Bearer {token}"))).into_iter().collect::<Vec<_>>(),
    )
}

/// Calls a method with these fields besides; an error is the status.
pub(crate) fn call(
    address: SocketAddr,
    method: &str,
    message: &[u8],
    fields: &[(&'static str, String)],
) -> Result<(), String> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let framed = Bytes::from([&[0], &length[..], message].concat());
    let uri = format!("http://localhost/ratekeeper.v1.RateLimiter/{method}");
    let mut request =
        http::Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in fields {
        request = request.header(*name, value);
    }
    let request = request.body(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let exchange = async {
        let socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (client, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        let (response, mut stream) = client.ready().await.unwrap().send_request(request, false).unwrap();
        stream.send_data(framed, true).unwrap();
        let (head, mut body) = response.await.unwrap().into_parts();
        while let Some(data) = body.data().await {
            data.unwrap();
        }
        let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
        trailers.get("grpc-status").unwrap().to_str().unwrap().to_owned()
    };
    let status = runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await }).unwrap();
    if status == "0" { Ok(()) } else { Err(status) }
}

#[derive(Serialize)]
struct PackedVerb {
    cmd: u8,
    key: &'static str,
    plan: &'static str,
}

fn msgpack(address: SocketAddr, verb: &str, token: Option<&str>) -> Result<(), String> {
    let mut raw = Raw::connect(address);
    if let Some(token) = token {
        exchange(&mut raw, &rmp_serde::to_vec(&(2, token)).unwrap())?;
    }
    let cmd = match verb {
        "refund" => 4,
        "debit" => 6,
        _ => 5,
    };
    exchange(&mut raw, &rmp_serde::to_vec_named(&PackedVerb { cmd, key: "k", plan: "gold" }).unwrap())
}

fn exchange(raw: &mut Raw, body: &[u8]) -> Result<(), String> {
    raw.send([&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat());
    let mut length = [0; 4];
    raw.0.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    raw.0.read_exact(&mut answer).unwrap();
    // What went wrong is an array whose last element says why.
    match rmp_serde::from_slice::<(bool, u8, i64, i64, i64, i64, String)>(&answer) {
        Ok((false, .., why)) => Err(why),
        _ => Ok(()),
    }
}
