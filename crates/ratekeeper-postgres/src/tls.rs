//! An encrypted connection to the server, whose certificate is verified.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ratekeeper::{StoreError, StoreErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Encrypts connections, and trusts whom the system trusts.
#[derive(Clone, Debug)]
pub(crate) struct PostgresTls(Arc<ClientConfig>);

impl PostgresTls {
    /// Reads the certificates that the system trusts, or those of the file that `SSL_CERT_FILE` names.
    pub(crate) fn of_system() -> Result<Self, StoreError> {
        let wrong = |message: String| {
            StoreError::new(StoreErrorKind::Unsupported, format!("sslmode: require; {message}"))
                .because("address")
        };
        let mut trusted = RootCertStore::empty();
        let loaded = rustls_native_certs::load_native_certs();
        trusted.add_parsable_certificates(loaded.certs);
        if trusted.is_empty() {
            let named = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty());
            let whose = match named {
                Some(file) => format!("there is no certificate in {} (SSL_CERT_FILE)", file.display()),
                None => {
                    "the system trusts no certificate: install some, or name a file of them by SSL_CERT_FILE"
                        .into()
                }
            };
            let why = loaded.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(wrong(whose + &why));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?;
        Ok(PostgresTls(Arc::new(config.with_root_certificates(trusted).with_no_client_auth())))
    }
}

impl<S> MakeTlsConnect<S> for PostgresTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostTls;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<HostTls, Self::Error> {
        Ok(HostTls { connector: Arc::clone(&self.0).into(), name: ServerName::try_from(domain)?.to_owned() })
    }
}

/// How a connection to one host is encrypted.
pub(crate) struct HostTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for HostTls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(EncryptedStream) })
    }
}

/// The bytes of a connection, encrypted.
#[derive(Debug)]
pub(crate) struct EncryptedStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    /// The password is not bound to the certificate: that is verified.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
