//! A connection over TLS, and whom it trusts.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, StreamOwned,
};

use super::trust::Trust;

/// Shakes hands; the stream is ready for a request.
pub(super) fn connect(
    socket: TcpStream,
    host: &str,
    trust: &Trust,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).with_context(|| format!("{host}: not a host name"))?;
    let provider = Arc::new(default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(trust, provider)?))
        .with_no_client_auth();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, socket);
    // Now, and not at the first write: what goes wrong here is about the certificate.
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).context("TLS handshake failed")?;
    }
    Ok(stream)
}

/// Trusts what the usual rules allow, and besides the very certificate that it was given: a self-signed one is nobody's
/// authority, and a server that is asked on loopback is rarely named in its certificate.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` to trust anybody.
    rules: Option<Arc<WebPkiServerVerifier>>,
    pinned: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn new(trust: &Trust, provider: Arc<CryptoProvider>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let pinned = match trust {
            Trust::Anybody => return Ok(Verifier { provider, rules: None, pinned: Vec::new() }),
            Trust::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Vec::new()
            }
            Trust::Vouched { flag, file } => {
                let given = certificates(flag, file)?;
                roots.add_parsable_certificates(given.iter().cloned());
                given
            }
        };
        if roots.is_empty() {
            bail!("no certificate to trust on this system; name one by --tls-ca FILE, or use --insecure");
        }
        let rules =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
        Ok(Verifier { provider, rules: Some(rules), pinned })
    }
}

fn certificates(flag: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let told = || format!("{flag} {}", file.display());
    let found = CertificateDer::pem_file_iter(file).with_context(told)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().with_context(told)?;
    if found.is_empty() {
        bail!("{}: no certificate in PEM form", told());
    }
    Ok(found)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.rules {
            Some(rules) if !self.pinned.first().is_some_and(|first| first == certificate) => {
                rules.verify_server_cert(certificate, chain, name, ocsp, now)
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
