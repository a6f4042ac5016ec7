//! TLS to a control plane.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Explain, ServerError};
use crate::settings::XdsTls;

/// Reads the files of the settings, to find mistakes in them.
///
/// # Errors
///
/// A file cannot be read or used, or there is nobody to trust.
pub(super) fn check(tls: &XdsTls) -> Result<(), ServerError> {
    config(tls).map(drop)
}

/// Shakes hands. Files are read each time: a certificate that was replaced is used by the next connection.
pub(super) async fn handshake(
    tls: &XdsTls,
    host: &str,
    socket: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let config = config(tls).map_err(|error| io::Error::other(format!("{error:#}")))?;
    let name = tls.name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

fn config(tls: &XdsTls) -> Result<ClientConfig, ServerError> {
    let mut roots = RootCertStore::empty();
    // What of them cannot be used is passed over: the one that is needed may be among the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = &tls.ca {
        let told = || format!("the CA certificate of the xDS server: {}", file.display());
        let given: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).explain(told)?.collect();
        if roots.add_parsable_certificates(given.explain(told)?).0 == 0 {
            return Err(ServerError::new(format!("{}: no certificate in PEM form", told())));
        }
    }
    if roots.is_empty() {
        let message = "no certificate to trust on this system; name one that vouches for the xDS server";
        return Err(ServerError::new(message));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .explain(|| "cannot set up TLS")?
        .with_root_certificates(roots);
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(files) => {
            let cert = || format!("the client certificate for the xDS server: {}", files.cert.display());
            let key = || format!("the client key for the xDS server: {}", files.key.display());
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_file_iter(&files.cert).explain(cert)?.collect();
            let secret = PrivateKeyDer::from_pem_file(&files.key).explain(key)?;
            builder.with_client_auth_cert(chain.explain(cert)?, secret).explain(cert)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
