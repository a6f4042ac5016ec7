//! `ratekeeper health`: asks a running server whether it is well, for health checks without another tool.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::settings::Bind;

/// How long a server may take. A healthy one takes a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any answer has.
const MOST: u64 = 64 * 1024;

/// Whom to ask.
#[derive(Debug, Args)]
#[command(
    about = "Ask a running server whether it is well",
    after_help = "Example: ratekeeper health --http 127.0.0.1:8080\nPrints `ok` and ends with 0, or ends with 1."
)]
pub(super) struct Flags {
    /// Where the server speaks HTTP.
    #[arg(long, value_name = "ADDR", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    http: Bind,
}

/// Prints `ok` and ends with 0, or says what is wrong and ends with 1.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let Bind::At(address) = flags.http else {
        bail!("--http off: there is nobody to ask; give the address of a server");
    };
    let address = reachable(address);
    match ask(address).with_context(|| address.to_string()) {
        Ok(200) => {
            // Whoever closed our standard output does not want to know.
            let _ = writeln!(std::io::stdout(), "ok");
            Ok(ExitCode::SUCCESS)
        }
        Ok(status) => {
            eprintln!("ratekeeper: {address}: not well: status {status}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// A server that listens everywhere is asked here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The status of `GET /health`.
fn ask(address: SocketAddr) -> Result<u16> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    write!(socket, "GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut said = Vec::new();
    socket.take(MOST).read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    let status = said.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    status.context("not an answer of HTTP; is it the right port?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everywhere_is_here() {
        for (given, expected) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")]
        {
            assert_eq!(reachable(given.parse().unwrap()).to_string(), expected);
        }
    }
}
