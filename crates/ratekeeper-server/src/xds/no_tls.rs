//! Replaces `tls` in a build without that feature.

use std::io;

use tokio::net::TcpStream;

use crate::error::ServerError;
use crate::settings::XdsTls;

const MISSING: &str = "TLS to the xDS server: this build has no TLS; build it with `--features tls`";

/// Always fails.
pub(super) fn check(_: &XdsTls) -> Result<(), ServerError> {
    Err(ServerError::new(MISSING))
}

/// Never called: nothing passes the check.
#[expect(clippy::unused_async, reason = "as with TLS")]
pub(super) async fn handshake(_: &XdsTls, _: &str, _: TcpStream) -> io::Result<TcpStream> {
    Err(io::Error::other(MISSING))
}
