//! The addresses that a name stands for, each by itself.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo};

use super::target::NodeTarget;

/// Where to ask about a cluster.
#[derive(Debug)]
pub(super) struct SeedContact {
    pub(super) target: NodeTarget,
    /// What to call a node there that does not know its own name.
    pub(super) host: String,
}

/// Returns everything that a seed may mean: behind one name may be many nodes, and any of them may know nothing.
pub(super) async fn contacts(seed: &ConnectionInfo, patience: Duration) -> Vec<SeedContact> {
    let (host, port, is_tls) = match seed.addr() {
        ConnectionAddr::Tcp(host, port) => (host.as_str(), *port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host.as_str(), *port, true),
        _ => ("", 0, false),
    };
    let is_name = !host.is_empty() && host.parse::<IpAddr>().is_err();
    let found = match is_name {
        true => tokio::time::timeout(patience, tokio::net::lookup_host((host, port))).await,
        false => return each(seed, host, is_tls, Vec::new()),
    };
    // A name that is not found is reported by the attempt to connect to it.
    let addresses = found.ok().and_then(Result::ok).map(Iterator::collect).unwrap_or_default();
    each(seed, host, is_tls, addresses)
}

fn each(seed: &ConnectionInfo, host: &str, is_tls: bool, mut addresses: Vec<SocketAddr>) -> Vec<SeedContact> {
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() < 2 {
        return vec![SeedContact { target: NodeTarget::Fixed(seed.clone()), host: host.to_owned() }];
    }
    let each = addresses.into_iter().map(|address| SeedContact {
        target: NodeTarget::Pinned(seed.clone(), address),
        // A certificate is for a name. Without one the address tells which of the nodes it is.
        host: if is_tls { host.to_owned() } else { address.ip().to_string() },
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::super::address::{RedisAddress, RedisEndpoint};
    use super::*;

    fn seed(url: &str) -> ConnectionInfo {
        match RedisAddress::parse(url).unwrap().endpoint {
            RedisEndpoint::Cluster { mut seeds } => seeds.remove(0),
            _ => panic!("{url}: a cluster"),
        }
    }

    fn hosts(contacts: &[SeedContact]) -> Vec<&str> {
        contacts.iter().map(|contact| contact.host.as_str()).collect()
    }

    #[test]
    fn every_address_behind_a_name_is_asked() {
        let seed = seed("redis-cluster://nodes.example:7000");
        let addresses = ["10.0.0.2:7000", "10.0.0.1:7000", "10.0.0.2:7000"];
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let found = each(&seed, "nodes.example", false, addresses.clone());
        assert_eq!(hosts(&found), ["10.0.0.1", "10.0.0.2"]);
        assert!(found.iter().all(|contact| matches!(contact.target, NodeTarget::Pinned(..))));
        let found = each(&seed, "nodes.example", true, addresses);
        assert_eq!(hosts(&found), ["nodes.example", "nodes.example"], "a certificate is for a name");
        let found = each(&seed, "nodes.example", false, vec!["10.0.0.1:7000".parse().unwrap()]);
        assert_eq!(hosts(&found), ["nodes.example"], "its address may change");
        assert!(matches!(found[0].target, NodeTarget::Fixed(_)));
    }

    #[tokio::test]
    async fn an_address_is_what_it_says() {
        let found = contacts(&seed("redis-cluster://127.0.0.1:7000"), Duration::from_secs(60)).await;
        assert_eq!(hosts(&found), ["127.0.0.1"]);
    }
}
