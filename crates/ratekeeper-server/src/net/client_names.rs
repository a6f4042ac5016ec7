//! Whose certificates are accepted from clients.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::error::{Explain, ServerError};

/// Returns what checks the certificates of clients: that one of these authorities vouches for them and, if there is a
/// name, that they have it.
///
/// # Errors
///
/// The file cannot be read or has no certificate, or the name is none.
pub(super) fn client_verifier(
    ca: &Path,
    name: Option<&str>,
) -> Result<Arc<dyn ClientCertVerifier>, ServerError> {
    let told = || format!("GRPC_CLIENT_TLS_CACERT {}", ca.display());
    let pem = fs::read(ca).explain(told)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.explain(told)?).explain(told)?;
    }
    if roots.is_empty() {
        return Err(ServerError::new(format!("{}: no certificate in PEM form", told())));
    }
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().explain(told)?;
    let Some(name) = name else { return Ok(verifier) };
    let name = ServerName::try_from(name.to_owned()).explain(|| {
        format!("GRPC_CLIENT_TLS_SAN {name}: no name of a host; write one such as `envoy.example.org`")
    })?;
    Ok(Arc::new(NamedClients { verifier, name }))
}

/// Accepts clients whose certificate has this name.
#[derive(Debug)]
struct NamedClients {
    verifier: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_name(&certificate, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
