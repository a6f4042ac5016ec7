//! TLS, once for all transports: a certificate that can be exchanged while connections are open.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::validity::{self, Instant, Standing, Validity};
use crate::engine::Engine;
use crate::settings::TlsFiles;
use crate::watcher::is_no_file;

/// Looks (one a second) for which a pair of files that cannot be used is waited for without a word: both are being
/// replaced, one after the other.
const PATIENCE: u32 = 10;
/// Seconds after which a certificate that needs attention is told of again.
const REMINDER: i64 = 86_400;

/// An encrypted connection.
pub(crate) type Stream = tokio_rustls::server::TlsStream<TcpStream>;

/// The socket below an encrypted connection.
pub(super) fn inner(stream: &Stream) -> &TcpStream {
    stream.get_ref().0
}

/// What handshakes are made with.
#[derive(Clone)]
pub(super) struct Tls(ServerConfig);

impl Tls {
    /// Reads both files; a mistake names its flag.
    pub(super) fn read(files: &TlsFiles, engine: &Arc<Engine>) -> Result<(Self, Rotation)> {
        let pair = Pair::read(files)?;
        let current = Arc::new(Current(RwLock::new(Arc::clone(&pair.certified))));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        let mut rotation = Rotation {
            files: files.clone(),
            engine: Arc::clone(engine),
            current,
            loaded: pair.fingerprint,
            validity: pair.validity,
            failures: 0,
            reminded: None,
        };
        rotation.tell();
        Ok((Tls(config), rotation))
    }

    /// Ready to shake hands for a transport that goes by these names.
    pub(super) fn acceptor(&self, protocols: &[&[u8]]) -> Acceptor {
        let mut config = self.0.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Acceptor(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The certificate that the next handshake is made with. Connections that are open have theirs already.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A certificate, its chain and its key, as they were in the files at one moment.
struct Pair {
    certified: Arc<CertifiedKey>,
    validity: Option<Validity>,
    fingerprint: u64,
}

impl Pair {
    fn read(files: &TlsFiles) -> Result<Self> {
        let (cert, key) = (&files.cert, &files.key);
        let (cert_pem, key_pem) = contents(files)?;
        let chain = certificates(&cert_pem).with_context(|| format!("--tls-cert {}", cert.display()))?;
        let validity = chain.first().and_then(|first| Validity::of(first));
        let private = PrivateKeyDer::from_pem_slice(&key_pem)
            .with_context(|| format!("--tls-key {}: no private key in PEM form", key.display()))?;
        let certified = CertifiedKey::from_der(chain, private, &default_provider()).with_context(|| {
            format!("--tls-key {}: does not go with --tls-cert {}", key.display(), cert.display())
        })?;
        let fingerprint = fingerprint(&cert_pem, &key_pem);
        Ok(Pair { certified: Arc::new(certified), validity, fingerprint })
    }
}

fn contents(files: &TlsFiles) -> Result<(Vec<u8>, Vec<u8>)> {
    let cert = fs::read(&files.cert).with_context(|| format!("--tls-cert {}", files.cert.display()))?;
    let key = fs::read(&files.key).with_context(|| format!("--tls-key {}", files.key.display()))?;
    Ok((cert, key))
}

/// Tells whether the files have changed: by what is in them, because times and sizes can stay the same.
fn fingerprint(cert: &[u8], key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (cert, key).hash(&mut hasher);
    hasher.finish()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if found.is_empty() {
        bail!("no certificate in PEM form");
    }
    Ok(found)
}

/// Watches the two files, and puts a new certificate in use.
#[derive(Debug)]
pub(super) struct Rotation {
    files: TlsFiles,
    engine: Arc<Engine>,
    current: Arc<Current>,
    loaded: u64,
    validity: Option<Validity>,
    /// Looks since the files have changed into something that cannot be used.
    failures: u32,
    /// When, and how, the certificate was last told to need attention.
    reminded: Option<(i64, Standing)>,
}

impl Rotation {
    /// Reads the files again if they have changed. To be called once a second.
    pub(super) fn look(&mut self) {
        if self.unreadable().is_some() {
            return self.remind();
        }
        let found = contents(&self.files).map(|(cert, key)| fingerprint(&cert, &key));
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

    /// Reads the files again, because somebody asked for it.
    pub(super) fn now(&mut self) {
        if let Err(error) = self.exchange() {
            complain(&error);
        }
    }

    /// The file, if any, that can be read only once.
    fn unreadable(&self) -> Option<&Path> {
        [&self.files.cert, &self.files.key].into_iter().map(PathBuf::as_path).find(|path| is_no_file(path))
    }

    fn exchange(&mut self) -> Result<()> {
        if let Some(path) = self.unreadable() {
            bail!("{}: no regular file: it can be read once, at the start", path.display());
        }
        let pair = Pair::read(&self.files)?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = pair.certified;
        (self.loaded, self.validity, self.failures) = (pair.fingerprint, pair.validity, 0);
        let until =
            pair.validity.map_or_else(String::new, |validity| Instant(validity.not_after).to_string());
        tracing::info!(cert = %self.files.cert.display(), %until, "TLS certificate reloaded");
        self.tell();
        Ok(())
    }

    /// Tells of a certificate that is new here.
    fn tell(&mut self) {
        self.engine.metrics().certificate_expires(self.validity.map(|validity| validity.not_after));
        self.reminded = None;
        self.remind();
    }

    /// Warns of a certificate that clients refuse, or soon will: at once, and then once a day.
    fn remind(&mut self) {
        let Some(validity) = self.validity else { return };
        let now = validity::now();
        let standing = validity.standing(now);
        let is_told = self.reminded.is_some_and(|(when, what)| what == standing && now - when < REMINDER);
        if standing == Standing::Good || is_told {
            return;
        }
        self.reminded = Some((now, standing));
        let cert = self.files.cert.display();
        let (from, until) = (Instant(validity.not_before), Instant(validity.not_after));
        match standing {
            Standing::Good => {}
            Standing::NotYet => {
                tracing::warn!(%cert, %from, "TLS certificate is not valid yet: clients refuse it");
            }
            Standing::EndsSoon => tracing::warn!(%cert, %until, "TLS certificate expires soon: replace it"),
            Standing::Expired => {
                tracing::warn!(%cert, %until, "TLS certificate has expired: clients refuse it");
            }
        }
    }
}

fn complain(error: &anyhow::Error) {
    tracing::error!(error = format!("{error:#}"), "TLS certificate not reloaded: the old one stays");
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
