//! Asks a server whether it is well.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ratekeeper_server::Bind;

use super::flags::HealthFlags;
use super::tls;

/// How long a server may take. A healthy one takes a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// More bytes than any first line has.
const MOST: usize = 4096;

/// Asks `GET /health`: prints `ok` and ends with 0, or says what is wrong and ends with 1.
pub(in crate::cli) fn run(flags: &HealthFlags) -> Result<ExitCode> {
    let Bind::At(address) = flags.http.address else {
        bail!("--http off: no server to ask; give the address of one");
    };
    let address = reachable(address);
    match ask(address, flags).with_context(|| address.to_string()) {
        Ok(200) => {
            // Whoever closed our standard output does not want to know.
            let _ = writeln!(std::io::stdout(), "ok");
            Ok(ExitCode::SUCCESS)
        }
        Ok(status) => {
            eprintln!("ratekeeper: {address}: not healthy: GET /health answered status {status}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => {
            eprintln!("ratekeeper: {error:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns where a server that listens on this address can be reached: one that listens everywhere, on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the status of `GET /health`.
fn ask(address: SocketAddr, flags: &HealthFlags) -> Result<u16> {
    let socket =
        TcpStream::connect_timeout(&address, PATIENCE).context("cannot connect; is the server running?")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    match flags.trust() {
        None => exchange(socket, address)
            .context("is it the right port? A server that was given --tls-cert must be asked with --tls-ca"),
        Some(trust) => exchange(tls::connect(socket, &flags.http.host, &trust)?, address),
    }
}

fn exchange(mut stream: impl Read + Write, address: SocketAddr) -> Result<u16> {
    let request = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    // The first line is all that is of interest; a connection that ends badly after it has served its purpose.
    let mut said = Vec::new();
    let mut piece = [0; 512];
    while said.len() < MOST && !said.contains(&b'\n') {
        match stream.read(&mut piece)? {
            0 => break,
            len => said.extend_from_slice(&piece[..len]),
        }
    }
    let said = String::from_utf8_lossy(&said);
    let status = said.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    status.context("the answer is not HTTP")
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
