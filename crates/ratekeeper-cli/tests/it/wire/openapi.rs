//! The OpenAPI document: a validator accepts it. `cargo xtask slow` has schemathesis compare the server with it.

use crate::wire::http::get;
use test_support::server::{Folder, Server, python, run};

#[test]
fn the_document_is_valid() {
    let Some(python) = python("openapi_spec_validator") else { return };
    let folder = Folder::new("openapi-valid");
    let rules = folder.write("a.yaml", "domain: edge\n");
    let server = Server::with(&["--rls", &rules, "--keep-keys"]);
    let path = folder.write("openapi.json", get(&server, "/openapi.json").body);
    let said = run(&python, &["-m", "openapi_spec_validator", &path]);
    assert!(said.contains("OK"), "{said}");
}
