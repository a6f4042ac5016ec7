//! Replaces `tls` in a build without that feature: nothing of this can be constructed.

use std::convert::Infallible;
use std::io;

use tokio::net::TcpStream;

use crate::error::ServerError;
use crate::settings::{GrpcTls, TlsFiles};

/// Never constructed.
pub(super) type TlsStream = TcpStream;

/// Never called.
pub(super) fn inner(stream: &TlsStream) -> &TcpStream {
    stream
}

/// Never constructed.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Infallible);

impl Tls {
    pub(crate) fn read(
        files: &TlsFiles,
        _: impl Fn(Option<i64>) + Send + 'static,
    ) -> Result<(Self, CertificateRotation), ServerError> {
        let cert = files.cert.display();
        Err(ServerError::new(format!(
            "--tls-cert {cert}: this build has no TLS; build it with `--features tls`"
        )))
    }

    pub(crate) fn read_grpc(
        _: &GrpcTls,
        _: impl Fn(Option<i64>) + Send + 'static,
    ) -> Result<(Self, CertificateRotation), ServerError> {
        Err(ServerError::new("GRPC_SERVER_USE_TLS: this build has no TLS; build it with `--features tls`"))
    }

    pub(crate) fn handshake(&self, _: &[&[u8]]) -> Handshake {
        match self.0 {}
    }
}

/// Never constructed.
#[derive(Debug)]
pub(crate) struct CertificateRotation(Infallible);

impl CertificateRotation {
    pub(crate) fn look(&mut self) {
        match self.0 {}
    }

    pub(crate) fn now(&mut self) {
        match self.0 {}
    }
}

/// Never constructed.
#[derive(Clone, Debug)]
pub(crate) struct Handshake(Infallible);

impl Handshake {
    pub(super) async fn perform(&self, _: TcpStream) -> io::Result<TlsStream> {
        match self.0 {}
    }
}
