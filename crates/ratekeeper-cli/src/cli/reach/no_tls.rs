//! In place of `tls` in a build without the feature of that name.

use std::net::TcpStream;

use anyhow::{Result, bail};

use super::trust::Trust;

pub(super) fn connect(_: TcpStream, _: &str, trust: &Trust) -> Result<TcpStream> {
    const NONE: &str = "this build has no TLS; build it with `--features tls`";
    match trust {
        Trust::Vouched { flag, file } => bail!("{flag} {}: {NONE}", file.display()),
        Trust::System | Trust::Anybody => bail!(NONE),
    }
}
