//! The listeners of a server that is about to start: the one place that knows all transports.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::host_name::{host_name, without_domain};
use crate::console::Console;
use crate::engine::Engine;
use crate::error::{Explain, ServerError};
use crate::net::{
    BoundListener, CertificateRotation, ConnectionSlots, ConnectionTimeouts, ListeningSocket, SocketFile,
    Tls, Transport, bind, bind_unix,
};
use crate::secret::LiveTokens;
use crate::settings::{SettingNames, Settings, TransportEndpoint};
use crate::transport::grpc::{self, GrpcTransport};
use crate::transport::http::{self, HostNames, HttpTransport};
use crate::transport::msgpack::{self, MsgPackTransport};
use crate::transport::resp::{self, RespTransport};

/// The listeners of a server that is about to start.
pub(super) struct Listeners<'a> {
    engine: &'a Engine,
    names: SettingNames,
    tls: Option<Tls>,
    /// What encrypts gRPC, if that is not what encrypts the others.
    grpc_tls: Option<Tls>,
    pub(super) rotations: Vec<CertificateRotation>,
    pub(super) loops: Vec<Vec<BoundListener>>,
    pub(super) bound: Vec<(&'static str, SocketAddr)>,
    pub(super) socket_file: Option<SocketFile>,
}

impl<'a> Listeners<'a> {
    /// Binds every address in the settings. `console` is what HTTP has to show; there is one if HTTP is served.
    pub(super) fn open(
        settings: &Settings,
        engine: &'a Arc<Engine>,
        tokens: &LiveTokens,
        console: Option<&Arc<Console>>,
    ) -> Result<Self, ServerError> {
        let mut listeners = Self::new(settings, engine)?;
        let own = host_name();
        // A domain is not added: a page may have any, and its first part be anything.
        let short = own.as_deref().and_then(without_domain);
        let configured = settings.allowed_hosts.iter().map(String::as_str).chain(short);
        let hosts = HostNames::new(configured, own.as_deref());
        if let Some(console) = console {
            listeners.add(http::NAME, settings.http.as_ref(), |_| {
                let http = HttpTransport::new(Arc::clone(engine), tokens.clone(), Arc::clone(console));
                Arc::new(http.known_as(hosts.clone()))
            })?;
        }
        listeners.add(http::DEBUG_NAME, settings.debug.as_ref(), |_| {
            let http = HttpTransport::for_debug(Arc::clone(engine), tokens.clone());
            Arc::new(http.known_as(hosts.clone()))
        })?;
        if let Some(prometheus) = &settings.prometheus {
            listeners.add(http::PROMETHEUS_NAME, Some(&prometheus.endpoint), |_| {
                let path = prometheus.path.clone();
                let http = HttpTransport::for_prometheus(Arc::clone(engine), tokens.clone(), path);
                Arc::new(http.known_as(hosts.clone()))
            })?;
        }
        listeners.add(resp::NAME, settings.resp.as_ref(), |slots| {
            Arc::new(RespTransport::new(Arc::clone(engine), Arc::clone(slots), tokens.clone()))
        })?;
        let patience = |endpoint: &TransportEndpoint| Duration::from_secs(endpoint.request_timeout.into());
        let grpc = |patience| {
            let transport = GrpcTransport::new(Arc::clone(engine), tokens.clone(), patience);
            Arc::new(transport.aging(settings.grpc_age))
        };
        listeners.add(grpc::NAME, settings.grpc.as_ref(), |_| {
            grpc(settings.grpc.as_ref().map_or(Duration::ZERO, patience))
        })?;
        if let Some(path) = &settings.grpc_socket {
            let usual = TransportEndpoint::at(SocketAddr::from(([127, 0, 0, 1], 0)));
            listeners.add_socket(path, &usual, |_| grpc(patience(&usual)))?;
        }
        listeners.add(msgpack::NAME, settings.msgpack.as_ref(), |_| {
            Arc::new(MsgPackTransport::new(Arc::clone(engine), tokens.clone()))
        })?;
        Ok(listeners)
    }

    fn new(settings: &Settings, engine: &'a Arc<Engine>) -> Result<Self, ServerError> {
        let note_expiry = || {
            let engine = Arc::clone(engine);
            move |expiry| engine.metrics().certificate_expires(expiry)
        };
        let tls = settings.tls.as_ref().map(|files| Tls::read(files, note_expiry())).transpose()?;
        let grpc_tls =
            settings.grpc_tls.as_ref().map(|tls| Tls::read_grpc(tls, note_expiry())).transpose()?;
        let ((tls, rotation), (grpc_tls, grpc_rotation)) = (tls.unzip(), grpc_tls.unzip());
        Ok(Listeners {
            engine,
            names: settings.names,
            tls,
            grpc_tls,
            rotations: rotation.into_iter().chain(grpc_rotation).collect(),
            loops: (0..settings.loops.max(1)).map(|_| Vec::new()).collect(),
            bound: Vec::new(),
            socket_file: None,
        })
    }

    /// Binds a transport's address, and gives every loop a listener there. Does nothing without an endpoint.
    fn add(
        &mut self,
        name: &'static str,
        endpoint: Option<&TransportEndpoint>,
        make: impl Fn(&Arc<ConnectionSlots>) -> Arc<dyn Transport>,
    ) -> Result<(), ServerError> {
        let Some(endpoint) = endpoint else { return Ok(()) };
        let address = endpoint.address;
        let listeners = bind(address, self.loops.len()).and_then(|listeners| {
            let bound = listeners.first().map_or(Ok(address), |first| first.local_addr())?;
            Ok((bound, listeners))
        });
        let (setting, remedy) = self.names.of_listener(name);
        let (bound, listeners) =
            listeners.explain(|| format!("{setting} {address}: cannot listen there; {remedy}"))?;
        self.bound.push((name, bound));
        self.spread(name, endpoint, listeners.into_iter().map(ListeningSocket::Tcp).collect(), make);
        Ok(())
    }

    /// Binds a Unix socket for gRPC.
    fn add_socket(
        &mut self,
        path: &Path,
        endpoint: &TransportEndpoint,
        make: impl Fn(&Arc<ConnectionSlots>) -> Arc<dyn Transport>,
    ) -> Result<(), ServerError> {
        let bound: io::Result<_> = bind_unix(path, self.loops.len());
        let (listeners, file) = bound.explain(|| {
            let path = path.display();
            format!("GRPC_UDS {path}: cannot listen there; name a path in a folder that exists and is free")
        })?;
        self.socket_file = Some(file);
        self.spread(grpc::NAME, endpoint, listeners, make);
        Ok(())
    }

    /// Gives every loop one of these listeners.
    fn spread(
        &mut self,
        name: &'static str,
        endpoint: &TransportEndpoint,
        listeners: Vec<ListeningSocket>,
        make: impl Fn(&Arc<ConnectionSlots>) -> Arc<dyn Transport>,
    ) {
        let slots = ConnectionSlots::new(endpoint.max_connections);
        self.engine.metrics().watch(name, &slots);
        let timeouts = ConnectionTimeouts { idle: endpoint.idle_timeout, request: endpoint.request_timeout };
        let tls = match name {
            grpc::NAME => self.grpc_tls.as_ref().or(self.tls.as_ref()),
            _ => self.tls.as_ref(),
        };
        for (bound, listener) in self.loops.iter_mut().zip(listeners) {
            let transport = make(&slots);
            let tls = tls.map(|tls| tls.handshake(transport.protocols()));
            bound.push(BoundListener { listener, transport, slots: Arc::clone(&slots), tls, timeouts });
        }
    }
}
