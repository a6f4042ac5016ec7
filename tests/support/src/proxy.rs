//! A TCP proxy on loopback that holds back, delays, throttles and cuts what passes through it.
//!
//! It runs on a thread of its own: it works beside any runtime, and beside none, and a busy or blocked test does not change what it
//! does. It ends, with all its connections, when it is dropped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How a connection is cut. Connections that are made later are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both sides are closed in order, with FIN.
    Close,
    /// Both sides are reset, with RST.
    Reset,
    /// Nothing passes any more, and neither side is told: the sockets stay open until the proxy is dropped.
    Silence,
}

/// Selects what is held back: called with the bytes that were read in one go from the client.
type Selector = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What happens to the bytes that pass.
#[derive(Clone, Default)]
struct Rules {
    delay: Duration,
    bytes_per_second: Option<NonZeroU32>,
    held: Option<Selector>,
    /// How many cuts there were, and the last one.
    cuts: (u64, Option<Cut>),
    is_over: bool,
}

/// A proxy to one address.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    accepted: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rules { delay, bytes_per_second, cuts, .. } = self;
        write!(f, "Rules({delay:?}, {bytes_per_second:?}, {cuts:?})")
    }
}

impl Proxy {
    /// Starts a proxy to a port of this machine.
    pub fn to_port(port: u16) -> Self {
        Self::to((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Starts a proxy to an address.
    pub fn to(target: SocketAddr) -> Self {
        let (listener, address) = mute();
        let rules = watch::Sender::new(Rules::default());
        let accepted = Arc::<AtomicU64>::default();
        let (watched, count) = (rules.subscribe(), Arc::clone(&accepted));
        let thread = std::thread::Builder::new().name(format!("proxy to {target}")).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(listener, target, watched, &count));
        });
        Proxy { address, rules, accepted, thread: Some(thread.expect("a thread")) }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Delays each piece that passes, in either direction, from now on.
    pub fn delay(&self, delay: Duration) {
        self.rules.send_modify(|rules| rules.delay = delay);
    }

    /// Lets so many bytes pass in a second, per connection and direction, from now on; `None` lifts the limit.
    pub fn throttle(&self, bytes_per_second: Option<NonZeroU32>) {
        self.rules.send_modify(|rules| rules.bytes_per_second = bytes_per_second);
    }

    /// Holds back what clients send if `is_held` returns true for it, from now on until [`release`](Proxy::release). What follows on
    /// the same connection waits behind it.
    pub fn hold(&self, is_held: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        self.rules.send_modify(|rules| rules.held = Some(Arc::new(is_held)));
    }

    /// Lets pass what was held back, and holds back nothing more.
    pub fn release(&self) {
        self.rules.send_modify(|rules| rules.held = None);
    }

    /// Cuts all connections that there are.
    pub fn cut(&self, cut: Cut) {
        self.rules.send_modify(|rules| rules.cuts = (rules.cuts.0 + 1, Some(cut)));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.rules.send_modify(|rules| rules.is_over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a socket that takes connections and never says a word, and its address. It is silent for as long as the socket is kept.
pub fn mute() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Accepts connections until the proxy is dropped.
async fn serve(
    listener: TcpListener,
    target: SocketAddr,
    mut rules: watch::Receiver<Rules>,
    accepted: &AtomicU64,
) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted.map(|(client, _)| client),
            _ = rules.wait_for(|rules| rules.is_over) => return,
        };
        if let Ok(client) = client {
            accepted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(carry(client, target, rules.clone()));
        }
    }
}

/// Carries one connection until either side has closed it, or it is cut.
async fn carry(mut client: TcpStream, target: SocketAddr, mut rules: watch::Receiver<Rules>) {
    let before = rules.borrow().cuts.0;
    // A target that refuses is a client that is reset.
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let cut = {
        let (up, down) = (rules.clone(), rules.clone());
        let (mut asked, mut told) = client.split();
        let (mut answered, mut forwarded) = server.split();
        tokio::select! {
            // Either direction may end before the other; one that fails ends both.
            _ = async { tokio::try_join!(
                pump(&mut asked, &mut forwarded, up, true),
                pump(&mut answered, &mut told, down, false),
            ) } => Some(Cut::Close),
            rules = rules.wait_for(|rules| rules.cuts.0 > before) => {
                rules.ok().and_then(|rules| rules.cuts.1)
            }
        }
    };
    match cut {
        Some(Cut::Reset) => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        // Both sockets are kept, and end with the runtime of the proxy.
        Some(Cut::Silence) => std::future::pending().await,
        Some(Cut::Close) | None => {}
    }
}

/// Carries one direction until it ends.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut rules: watch::Receiver<Rules>,
    is_from_client: bool,
) -> io::Result<()> {
    let mut bytes = vec![0; 65_536];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        let piece = &bytes[..length];
        if is_from_client {
            let passes = |rules: &Rules| rules.held.as_ref().is_none_or(|is_held| !is_held(piece));
            // The proxy is being dropped.
            let _ = rules.wait_for(passes).await.map_err(io::Error::other)?;
        }
        let (delay, limit) = {
            let rules = rules.borrow();
            (rules.delay, rules.bytes_per_second)
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        match limit {
            None => to.write_all(piece).await?,
            Some(limit) => write_slowly(to, piece, limit.get()).await?,
        }
    }
}

/// Writes this many bytes a second, a hundredth of them at a time.
async fn write_slowly(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8], limit: u32) -> io::Result<()> {
    let part = (limit / 100).max(1);
    for bytes in bytes.chunks(part as usize) {
        to.write_all(bytes).await?;
        tokio::time::sleep(Duration::from_secs(1) * part / limit).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::wait;

    /// A proxy to a server that sends back what it is sent.
    fn echo() -> Proxy {
        let (listener, address) = mute();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                std::thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        Proxy::to(address)
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(wait::PATIENCE)).unwrap();
        stream
    }

    fn echoes(stream: &mut TcpStream, bytes: &[u8]) {
        stream.write_all(bytes).unwrap();
        let mut found = vec![0; bytes.len()];
        stream.read_exact(&mut found).unwrap();
        assert_eq!(found, bytes);
    }

    #[test]
    fn bytes_pass_both_ways_and_the_end_does() {
        let proxy = echo();
        let mut stream = connect(&proxy);
        echoes(&mut stream, b"one");
        proxy.delay(Duration::from_millis(1));
        proxy.throttle(NonZeroU32::new(1_000_000));
        echoes(&mut stream, &[7; 50_000]);
        proxy.throttle(None);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0, "the server has closed, too");
        assert_eq!(proxy.accepted(), 1);
    }

    #[test]
    fn what_is_held_passes_when_it_is_released() {
        let proxy = echo();
        let (mut held, mut free) = (connect(&proxy), connect(&proxy));
        proxy.hold(|bytes| bytes.starts_with(b"h"));
        held.write_all(b"held").unwrap();
        echoes(&mut free, b"free");
        held.set_nonblocking(true).unwrap();
        assert_eq!(held.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
        held.set_nonblocking(false).unwrap();
        proxy.release();
        let mut found = [0; 4];
        held.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"held");
    }

    #[test]
    fn a_cut_closes_resets_or_silences_the_connections_that_there_are() {
        let proxy = echo();
        for cut in [Cut::Close, Cut::Reset, Cut::Silence] {
            let mut stream = connect(&proxy);
            echoes(&mut stream, b"before");
            proxy.cut(cut);
            match cut {
                Cut::Close => assert_eq!(stream.read(&mut [0; 9]).unwrap(), 0),
                Cut::Reset => {
                    assert_eq!(stream.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
                }
                Cut::Silence => {
                    stream.write_all(b"lost").unwrap();
                    // Whatever would have come back has come by the time that another connection has its answer.
                    echoes(&mut connect(&proxy), b"after");
                    stream.set_nonblocking(true).unwrap();
                    assert_eq!(stream.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
                }
            }
        }
        drop(proxy);
    }

    #[test]
    fn a_target_that_refuses_is_a_connection_that_is_reset() {
        let proxy = Proxy::to_port(crate::port::free_port());
        let mut stream = connect(&proxy);
        assert!(stream.read(&mut [0; 9]).is_err());
    }
}
