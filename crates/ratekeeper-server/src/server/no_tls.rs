//! In place of `tls` in a build without the feature of that name.

use std::convert::Infallible;
use std::io;

use anyhow::{Result, bail};
use tokio::net::TcpStream;

use crate::settings::TlsFiles;

/// Never made.
pub(crate) type Stream = TcpStream;

/// Never called.
pub(super) fn inner(stream: &Stream) -> &TcpStream {
    stream
}

/// There is none.
#[derive(Clone, Debug)]
pub(super) struct Tls(Infallible);

impl Tls {
    pub(super) fn read(files: &TlsFiles) -> Result<Self> {
        bail!("--tls-cert {}: this build has no TLS; build it with `--features tls`", files.cert.display())
    }

    pub(super) fn acceptor(&self, _: &[&[u8]]) -> Acceptor {
        match self.0 {}
    }
}

/// There is none.
#[derive(Clone, Debug)]
pub(super) struct Acceptor(Infallible);

impl Acceptor {
    pub(super) async fn shake(&self, _: TcpStream) -> io::Result<Stream> {
        match self.0 {}
    }
}
