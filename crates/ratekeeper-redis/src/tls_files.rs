//! What `rediss://` goes by.

use std::path::PathBuf;

/// The certificates of connections by TLS; the default trusts whom the system trusts.
///
/// Without the feature `tls` there are no such connections, and nobody looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Certificates of those who vouch for the server, in PEM form; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate of this client with its chain, and its private key, in PEM form.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether the name in the server's certificate may be another one than that of its host. Whoever has any certificate
    /// that is trusted can then read along.
    pub any_name: bool,
}

#[cfg(feature = "tls")]
mod reading {
    use std::fs;
    use std::path::Path;

    use redis::{ClientTlsConfig, TlsCertificates};

    use super::RedisTls;
    use crate::error::{RedisError, RedisErrorKind};

    impl RedisTls {
        /// Reads the files.
        pub(crate) fn read(&self) -> Result<TlsCertificates, RedisError> {
            let client_tls = match &self.client {
                Some((cert, key)) => {
                    let (client_cert, client_key) = (pem(cert, "CERTIFICATE")?, pem(key, "PRIVATE KEY")?);
                    Some(ClientTlsConfig { client_cert, client_key })
                }
                None => None,
            };
            let root_cert = self.ca.as_ref().map(|ca| pem(ca, "CERTIFICATE")).transpose()?;
            Ok(TlsCertificates { client_tls, root_cert })
        }
    }

    /// Returns a file, if it has something of this kind in it.
    fn pem(path: &Path, kind: &str) -> Result<Vec<u8>, RedisError> {
        let wrong = |message: String| {
            RedisError::new(RedisErrorKind::Address, format!("TLS: {}: {message}", path.display()))
        };
        let bytes = fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let end = format!("{kind}-----");
        if !String::from_utf8_lossy(&bytes).contains(&end) {
            return Err(wrong(format!("no {} in PEM form", kind.to_lowercase())));
        }
        Ok(bytes)
    }
}
