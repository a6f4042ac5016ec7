//! Which servers a health check over TLS trusts.

use std::path::PathBuf;

/// Which servers a health check over TLS trusts.
#[derive(Debug)]
pub(super) enum Trust {
    /// Servers that these certificates vouch for, and the one that has the first of them.
    Vouched { flag: &'static str, file: PathBuf },
    /// Servers that this system trusts.
    System,
    /// Any server.
    Anybody,
}
