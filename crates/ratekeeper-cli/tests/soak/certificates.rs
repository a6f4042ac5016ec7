//! Certificates for the one server that is encrypted, of an authority that its clients trust.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Makes certificates, and puts them where the server reads them.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    folder: PathBuf,
}

impl Authority {
    pub(crate) fn new(folder: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority { issuer: Issuer::new(params, key), certificate, folder: folder.to_owned() }
    }

    /// The files of the certificate and its key.
    pub(crate) fn files(&self) -> (String, String) {
        let path = |name: &str| self.folder.join(name).to_str().unwrap().to_owned();
        (path("cert.pem"), path("key.pem"))
    }

    /// Issues a new one, one file after the other, as an operator would. Returns it.
    pub(crate) fn issue(&self) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) = self.files();
        for (file, text) in [(cert_file, certificate.pem()), (key_file, key.serialize_pem())] {
            let beside = format!("{file}.new");
            std::fs::write(&beside, text).unwrap();
            std::fs::rename(beside, file).unwrap();
        }
        certificate.der().clone()
    }

    /// What clients trust.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    }
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
