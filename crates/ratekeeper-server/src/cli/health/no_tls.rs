//! In place of `tls` in a build without the feature of that name.

use std::net::TcpStream;

use anyhow::{Result, bail};

use super::Trust;

pub(super) fn connect(_: TcpStream, _: &str, _: &Trust) -> Result<TcpStream> {
    bail!("this build has no TLS; build it with `--features tls`")
}
