//! TLS, once for all transports: a certificate that can be exchanged while connections are open.

use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::SignedDuration;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::client_names::client_verifier;
use super::validity::{CertificateStanding, UtcTime, Validity};
use crate::error::{AnyError, Explain, ServerError};
use crate::settings::{GrpcTls, TlsFiles};
use crate::watcher::is_no_file;

/// Looks (one a second) before a pair of files that cannot be used is logged: both may be about to be replaced, one
/// after the other.
const PATIENCE: u32 = 10;
/// Time after which a certificate that needs attention is logged again.
const REMINDER: SignedDuration = SignedDuration::from_hours(24);

/// An encrypted connection.
pub(super) type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Returns the socket below an encrypted connection.
pub(super) fn inner(stream: &TlsStream) -> &TcpStream {
    stream.get_ref().0
}

/// The settings of TLS, shared by all transports.
#[derive(Clone)]
pub(crate) struct Tls(ServerConfig);

impl Tls {
    /// Reads certificate and key, and asks clients for none. `note_expiry` is called with the end of each certificate that is put in use, in seconds since
    /// the epoch.
    ///
    /// # Errors
    ///
    /// A file cannot be read or used; the error names its flag.
    pub(crate) fn read(
        files: &TlsFiles,
        note_expiry: impl Fn(Option<i64>) + Send + 'static,
    ) -> Result<(Self, CertificateRotation), ServerError> {
        Self::with(files, TlsNames::FLAGS, WebPkiClientVerifier::no_client_auth(), note_expiry)
    }

    /// Like [`read`](Self::read), but for gRPC alone, whose clients may have to show a certificate.
    pub(crate) fn read_grpc(
        tls: &GrpcTls,
        note_expiry: impl Fn(Option<i64>) + Send + 'static,
    ) -> Result<(Self, CertificateRotation), ServerError> {
        let verifier = match &tls.client_ca {
            Some(ca) => client_verifier(ca, tls.client_name.as_deref())?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        Self::with(&tls.files, TlsNames::GRPC, verifier, note_expiry)
    }

    fn with(
        files: &TlsFiles,
        names: TlsNames,
        clients: Arc<dyn ClientCertVerifier>,
        note_expiry: impl Fn(Option<i64>) + Send + 'static,
    ) -> Result<(Self, CertificateRotation), ServerError> {
        let pair = KeyPairFiles::read(files, names)?;
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::clone(&pair.certified))));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .explain(|| "cannot set up TLS")?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        let mut rotation = CertificateRotation {
            files: files.clone(),
            names,
            note_expiry: Box::new(note_expiry),
            current,
            loaded: pair.fingerprint,
            validity: pair.validity,
            failures: 0,
            reminded: None,
        };
        rotation.announce();
        Ok((Tls(config), rotation))
    }

    /// Returns the server's side of handshakes for a transport with these ALPN names.
    pub(crate) fn handshake(&self, protocols: &[&[u8]]) -> Handshake {
        let mut config = self.0.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Handshake(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The certificate that the next handshake is made with. Connections that are open have theirs already.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What messages call the two files.
#[derive(Clone, Copy, Debug)]
struct TlsNames {
    cert: &'static str,
    key: &'static str,
}

impl TlsNames {
    const FLAGS: TlsNames = TlsNames { cert: "--tls-cert", key: "--tls-key" };
    /// Only the variables of the Go service encrypt gRPC alone.
    const GRPC: TlsNames = TlsNames { cert: "GRPC_SERVER_TLS_CERT", key: "GRPC_SERVER_TLS_KEY" };
}

/// A certificate, its chain and its key, as they were in the files at one moment.
struct KeyPairFiles {
    certified: Arc<CertifiedKey>,
    validity: Option<Validity>,
    fingerprint: u64,
}

impl KeyPairFiles {
    fn read(files: &TlsFiles, names: TlsNames) -> Result<Self, ServerError> {
        let cert = || format!("{} {}", names.cert, files.cert.display());
        let key = || format!("{} {}", names.key, files.key.display());
        let (cert_pem, key_pem) = contents(files, names)?;
        let chain = certificates(&cert_pem).explain(cert)?;
        let validity = chain.first().and_then(|first| Validity::of(first));
        let private = PrivateKeyDer::from_pem_slice(&key_pem)
            .explain(|| format!("{}: no private key in PEM form", key()))?;
        let certified = CertifiedKey::from_der(chain, private, &default_provider())
            .explain(|| format!("{}: does not go with {}", key(), cert()))?;
        let fingerprint = fingerprint(&cert_pem, &key_pem);
        Ok(KeyPairFiles { certified: Arc::new(certified), validity, fingerprint })
    }
}

fn contents(files: &TlsFiles, names: TlsNames) -> Result<(Vec<u8>, Vec<u8>), ServerError> {
    let cert = fs::read(&files.cert).explain(|| format!("{} {}", names.cert, files.cert.display()))?;
    let key = fs::read(&files.key).explain(|| format!("{} {}", names.key, files.key.display()))?;
    Ok((cert, key))
}

/// Tells whether the files have changed: by what is in them, because times and sizes can stay the same.
fn fingerprint(cert: &[u8], key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cert, key).hash(&mut hasher);
    hasher.finish()
}

/// Returns the certificates of a file; the error says only what is wrong with them.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, AnyError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err("no certificate in PEM form".into());
    }
    Ok(found)
}

/// Watches the two files, and puts a new certificate in use.
pub(crate) struct CertificateRotation {
    files: TlsFiles,
    names: TlsNames,
    note_expiry: Box<dyn Fn(Option<i64>) + Send>,
    current: Arc<CurrentCertificate>,
    loaded: u64,
    validity: Option<Validity>,
    /// Looks since the files have changed into something that cannot be used.
    failures: u32,
    /// When, and why, the log last said that the certificate needs attention.
    reminded: Option<(UtcTime, CertificateStanding)>,
}

impl fmt::Debug for CertificateRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateRotation").field("files", &self.files).finish_non_exhaustive()
    }
}

impl CertificateRotation {
    /// Reads the files again if they have changed. To be called once a second.
    pub(crate) fn look(&mut self) {
        if self.unreadable().is_some() {
            return self.remind();
        }
        let found = contents(&self.files, self.names).map(|(cert, key)| fingerprint(&cert, &key));
        if found.is_ok_and(|found| found == self.loaded) {
            self.failures = 0;
        } else if let Err(error) = self.exchange() {
            self.failures = self.failures.saturating_add(1);
            if self.failures == PATIENCE {
                complain(&error);
            }
        }
        self.remind();
    }

    /// Reads the files again, whether they have changed or not.
    pub(crate) fn now(&mut self) {
        if let Err(error) = self.exchange() {
            complain(&error);
        }
    }

    /// Returns the file, if any, that can be read only once.
    fn unreadable(&self) -> Option<&Path> {
        [&self.files.cert, &self.files.key].into_iter().map(PathBuf::as_path).find(|path| is_no_file(path))
    }

    fn exchange(&mut self) -> Result<(), ServerError> {
        if let Some(path) = self.unreadable() {
            let path = path.display();
            return Err(ServerError::new(format!(
                "{path}: no regular file: it can be read once, at the start"
            )));
        }
        let pair = KeyPairFiles::read(&self.files, self.names)?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = pair.certified;
        (self.loaded, self.validity, self.failures) = (pair.fingerprint, pair.validity, 0);
        let until = pair.validity.map_or_else(String::new, |validity| validity.not_after.to_string());
        tracing::info!(cert = %self.files.cert.display(), %until, "tls: certificate reloaded");
        self.announce();
        Ok(())
    }

    /// Reports a certificate that was put in use.
    fn announce(&mut self) {
        (self.note_expiry)(self.validity.map(|validity| validity.not_after.as_second()));
        self.reminded = None;
        self.remind();
    }

    /// Warns of a certificate that clients refuse, or soon will: at once, and then once a day.
    fn remind(&mut self) {
        let Some(validity) = self.validity else { return };
        let now = UtcTime::now();
        let standing = validity.standing(now);
        let is_recent = |when: UtcTime| now.since(when) < REMINDER;
        let is_said = self.reminded.is_some_and(|(when, what)| what == standing && is_recent(when));
        if standing == CertificateStanding::Good || is_said {
            return;
        }
        self.reminded = Some((now, standing));
        let cert = self.files.cert.display();
        let (from, until) = (validity.not_before, validity.not_after);
        match standing {
            CertificateStanding::Good => {}
            CertificateStanding::NotYet => {
                tracing::warn!(%cert, %from, "TLS certificate is not valid yet: clients refuse it");
            }
            CertificateStanding::EndsSoon => {
                tracing::warn!(%cert, %until, "TLS certificate expires soon: replace it")
            }
            CertificateStanding::Expired => {
                tracing::warn!(%cert, %until, "TLS certificate has expired: clients refuse it");
            }
        }
    }
}

fn complain(error: &ServerError) {
    tracing::error!(error = format!("{error:#}"), "TLS certificate not reloaded: the old one stays");
}

/// The server's side of handshakes with clients.
#[derive(Clone)]
pub(crate) struct Handshake(TlsAcceptor);

impl Handshake {
    /// Agrees with a client on a cipher.
    pub(super) async fn perform(&self, socket: TcpStream) -> io::Result<TlsStream> {
        self.0.accept(socket).await
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake(…)")
    }
}
