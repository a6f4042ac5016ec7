//! Which servers are trusted over TLS.

use std::path::PathBuf;

use clap::Args;

use super::target::ServerTarget;

/// Whom to trust.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct TrustFlags {
    /// Use TLS, and trust what these certificates have signed [default for https: those of this system].
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// Use TLS, and trust this very certificate: the file that the server was given by --tls-cert.
    #[arg(long, value_name = "FILE", env = "RATEKEEPER_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Use TLS, but accept any certificate.
    #[arg(long)]
    insecure: bool,
}

impl TrustFlags {
    /// Returns which servers to trust, or `None` to speak without TLS.
    pub(super) fn trust(&self, target: &ServerTarget) -> Option<Trust> {
        match (&self.tls_ca, &self.tls_cert) {
            _ if self.insecure => Some(Trust::Anybody),
            (Some(file), _) => Some(Trust::Vouched { flag: "--tls-ca", file: file.clone() }),
            (None, Some(file)) => Some(Trust::Vouched { flag: "--tls-cert", file: file.clone() }),
            (None, None) => target.is_https.then_some(Trust::System),
        }
    }
}

/// Which servers are trusted over TLS.
#[derive(Debug)]
pub(super) enum Trust {
    /// Servers that these certificates vouch for, and the one that has the first of them.
    Vouched { flag: &'static str, file: PathBuf },
    /// Servers that this system trusts.
    System,
    /// Any server.
    Anybody,
}
