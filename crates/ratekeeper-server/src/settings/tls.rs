//! What connections are encrypted with.

use std::path::PathBuf;

/// A certificate and its private key, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// How gRPC is encrypted, if it differs from the other transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcTls {
    /// The certificate of the server, and its key.
    pub files: TlsFiles,
    /// Certificates of those who vouch for clients, in PEM form: clients must then have one of theirs.
    pub client_ca: Option<PathBuf>,
    /// A name that the certificate of a client must have; `None`: any.
    pub client_name: Option<String>,
}
