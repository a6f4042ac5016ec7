//! One door: what carries a decision asks the keeper for it, and knows no store.

use super::finding::Finding;
use super::house::tree::Tree;

/// The modules that carry requests and answers: by crate.
const CARRIERS: &[(&str, &[&str])] = &[
    ("ratekeeper-server", &["transport", "stream", "responder", "request"]),
    ("ratekeeper-http", &["server", "client"]),
];

/// The crates that define stores, as code names them.
const STORES: [&str; 2] = ["ratekeeper", "ratekeeper_redis"];

/// Reports carriers that name a store, and carriers that are no more.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let carriers = CARRIERS.iter().filter(|(name, _)| *name == tree.name);
    for carrier in carriers.flat_map(|(_, modules)| *modules) {
        let modules = tree
            .modules
            .iter()
            .filter(|module| !module.is_test && module.path.first().is_some_and(|name| name == carrier));
        let mut modules = modules.peekable();
        if modules.peek().is_none() {
            let what = format!("{} has no module {carrier}; strike it off doors::CARRIERS", tree.name);
            findings.extend(tree.modules.first().map(|root| Finding::new(&root.file, 1, what)));
        }
        for module in modules {
            let stores = module.named.iter().filter(|path| {
                let is_foreign = path.names.first().is_some_and(|first| STORES.contains(&first.as_str()));
                is_foreign && path.names.iter().any(|name| name.ends_with("Store"))
            });
            let what = |name: &str| format!("{carrier} names {name}; ask the keeper, which asks the store");
            findings.extend(
                stores.map(|path| Finding::new(&module.file, path.line, what(&path.names.join("::")))),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::house::fixture::named;
    use super::*;

    #[test]
    fn a_transport_that_names_a_store_is_found() {
        let files = [
            ("lib.rs", "mod server; mod client; mod limit;"),
            ("server.rs", "use ratekeeper::{Keeper,\nport::Store}; fn f(e: KeeperError::Store) {}"),
            ("client.rs", "fn f(s: &ratekeeper::MemoryStore) {}"),
            ("limit.rs", "use ratekeeper::MemoryStore;"),
        ];
        let found: Vec<String> =
            check(&named("ratekeeper-http", &files)).iter().map(ToString::to_string).collect();
        let expected = [
            "server.rs:1: server names ratekeeper::port::Store; ask the keeper, which asks the store",
            "client.rs:1: client names ratekeeper::MemoryStore; ask the keeper, which asks the store",
        ];
        assert_eq!(found, expected);
        assert_eq!(check(&named("ratekeeper-http", &files[..1])).len(), 2);
        assert!(check(&named("other", &files)).is_empty());
    }
}
