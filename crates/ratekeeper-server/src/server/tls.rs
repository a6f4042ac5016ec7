//! TLS, once for all transports.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::settings::TlsFiles;

/// An encrypted connection.
pub(crate) type Stream = tokio_rustls::server::TlsStream<TcpStream>;

/// The socket below an encrypted connection.
pub(super) fn inner(stream: &Stream) -> &TcpStream {
    stream.get_ref().0
}

/// A certificate and its key, ready for use.
#[derive(Clone)]
pub(super) struct Tls(ServerConfig);

impl Tls {
    /// Reads both files; a mistake names its flag.
    pub(super) fn read(files: &TlsFiles) -> Result<Self> {
        let (cert, key) = (&files.cert, &files.key);
        let chain = certificates(cert).with_context(|| format!("--tls-cert {}", cert.display()))?;
        let private = PrivateKeyDer::from_pem_file(key)
            .with_context(|| format!("--tls-key {}: no private key in PEM form", key.display()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .with_context(|| {
                format!("--tls-key {}: does not go with --tls-cert {}", key.display(), cert.display())
            })?;
        Ok(Tls(config))
    }

    /// Ready to shake hands for a transport that goes by these names.
    pub(super) fn acceptor(&self, protocols: &[&[u8]]) -> Acceptor {
        let mut config = self.0.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Acceptor(TlsAcceptor::from(Arc::new(config)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?;
    if found.is_empty() {
        bail!("no certificate in PEM form");
    }
    Ok(found)
}

/// Shakes hands with clients.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(super) async fn shake(&self, socket: TcpStream) -> io::Result<Stream> {
        self.0.accept(socket).await
    }
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor(…)")
    }
}
