//! In place of `tls` in a build without the feature of that name.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use anyhow::{Result, bail};
use tokio::net::TcpStream;

use crate::engine::Engine;
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
    pub(super) fn read(files: &TlsFiles, _: &Arc<Engine>) -> Result<(Self, Rotation)> {
        bail!("--tls-cert {}: this build has no TLS; build it with `--features tls`", files.cert.display())
    }

    pub(super) fn acceptor(&self, _: &[&[u8]]) -> Acceptor {
        match self.0 {}
    }
}

/// There is none.
#[derive(Debug)]
pub(super) struct Rotation(Infallible);

impl Rotation {
    pub(super) fn look(&mut self) {
        match self.0 {}
    }

    pub(super) fn now(&mut self) {
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
