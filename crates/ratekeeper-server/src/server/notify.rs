//! What the service manager is told: that the server is ready, or stops. See `sd_notify(3)`.

/// Tells systemd a state, if it has started the process and asked for that.
#[cfg(target_os = "linux")]
pub(super) fn tell(state: &str) {
    if let Some(address) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(address.as_encoded_bytes(), state)
    {
        tracing::warn!(%error, state, "start: cannot notify the service manager");
    }
}

#[cfg(target_os = "linux")]
fn send(address: &[u8], state: &str) -> std::io::Result<()> {
    use std::ffi::OsStr;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let address = match address {
        // No file: a name that the kernel knows.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn tell(_: &str) {}
