//! `ratekeeper health`: asks a running server whether it is well, for health checks without another tool.

#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use ratekeeper_server::settings::{Bind, BindError};

/// How long a server may take. A healthy one takes a fraction of a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
/// More bytes than any first line has.
const MOST: usize = 4096;

/// Whom to ask.
#[derive(Debug, Args)]
#[command(
    about = "Ask a running server whether it is well",
    after_help = "Example: ratekeeper health --http 127.0.0.1:8080\n\
                  Prints `ok` and ends with 0, or ends with 1. It needs no token: /health is open."
)]
pub(super) struct Flags {
    /// Where the server speaks HTTP: an address, or a URL such as https://limits.example:8080.
    #[arg(long, value_name = "ADDR|URL", env = "RATEKEEPER_HTTP", default_value = "127.0.0.1:8080")]
    http: Place,
    /// Speak TLS, and trust servers that these certificates in PEM form vouch for [default for https:// URLs: those of
    /// this system].
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// Speak TLS, and trust the server that has this certificate: the one that `serve` was given.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Speak TLS, and trust any server.
    #[arg(long)]
    insecure: bool,
}

/// Where to ask, and by which name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    address: Bind,
    /// The host as it was written.
    host: String,
    is_https: bool,
}

impl FromStr for Place {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        let (is_https, authority) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(BindError),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let address = authority.parse()?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        Ok(Place { address, host: host.trim_matches(['[', ']']).to_owned(), is_https })
    }
}

/// Whom to trust.
#[derive(Debug)]
enum Trust {
    /// Whoever these certificates vouch for, or has the first of them.
    Vouched { flag: &'static str, file: PathBuf },
    /// Whoever this system trusts.
    System,
    /// Anybody.
    Anybody,
}

impl Flags {
    /// Whom to trust, or `None` to speak without TLS.
    fn trust(&self) -> Option<Trust> {
        match (&self.tls_ca, &self.tls_cert) {
            _ if self.insecure => Some(Trust::Anybody),
            (Some(file), _) => Some(Trust::Vouched { flag: "--tls-ca", file: file.clone() }),
            (None, Some(file)) => Some(Trust::Vouched { flag: "--tls-cert", file: file.clone() }),
            (None, None) => self.http.is_https.then_some(Trust::System),
        }
    }
}

/// Prints `ok` and ends with 0, or says what is wrong and ends with 1.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let Bind::At(address) = flags.http.address else {
        bail!("--http off: there is nobody to ask; give the address of a server");
    };
    let address = reachable(address);
    match ask(address, flags).with_context(|| address.to_string()) {
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
fn ask(address: SocketAddr, flags: &Flags) -> Result<u16> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
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
    status.context("not an answer of HTTP")
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

    #[test]
    fn addresses_and_urls() {
        for (text, address, host, is_https) in [
            ("127.0.0.1:1", "127.0.0.1:1", "127.0.0.1", false),
            ("http://127.0.0.1:1/", "127.0.0.1:1", "127.0.0.1", false),
            ("https://[::1]:1", "[::1]:1", "::1", true),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place.address, Bind::At(address.parse().unwrap()), "{text}");
            assert_eq!((place.host.as_str(), place.is_https), (host, is_https), "{text}");
        }
        assert_eq!("ftp://127.0.0.1:1".parse::<Place>(), Err(BindError));
        assert_eq!("off".parse::<Place>().unwrap().address, Bind::Off);
    }
}
