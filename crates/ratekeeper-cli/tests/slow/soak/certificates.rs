//! Certificates for the one server that is encrypted, of an authority that its clients trust.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use test_support::certificates::{AUTHORITY, LOOPBACK, LOOPBACK_THREE, LOOPBACK_TWO};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Puts certificates of the authority where the server reads them.
pub(crate) struct Authority {
    folder: PathBuf,
    /// How many were issued.
    issued: AtomicUsize,
}

impl Authority {
    pub(crate) fn new(folder: &Path) -> Self {
        Authority { folder: folder.to_owned(), issued: AtomicUsize::new(0) }
    }

    /// The files of the certificate and its key.
    pub(crate) fn files(&self) -> (String, String) {
        let path = |name: &str| self.folder.join(name).to_str().unwrap().to_owned();
        (path("cert.pem"), path("key.pem"))
    }

    /// Issues another one than before, one file after the other, as an operator would. Returns it.
    pub(crate) fn issue(&self) -> CertificateDer<'static> {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let next = [LOOPBACK, LOOPBACK_TWO, LOOPBACK_THREE][number % 3];
        let (cert_file, key_file) = self.files();
        for (file, text) in [(cert_file, next.cert), (key_file, next.key)] {
            let beside = format!("{file}.new");
            std::fs::write(&beside, text).unwrap();
            std::fs::rename(beside, file).unwrap();
        }
        der(next.cert)
    }

    /// What clients trust.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(der(AUTHORITY.cert)).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// The certificate that a server shows to who connects now; none if it cannot be told within a second.
pub(crate) async fn shown(address: SocketAddr, config: Arc<ClientConfig>) -> Option<CertificateDer<'static>> {
    let look = async {
        let socket = TcpStream::connect(address).await.ok()?;
        let name = ServerName::IpAddress(address.ip().into());
        let stream = TlsConnector::from(config).connect(name, socket).await.ok()?;
        Some(stream.get_ref().1.peer_certificates()?.first()?.clone().into_owned())
    };
    tokio::time::timeout(Duration::from_secs(1), look).await.ok()?
}
