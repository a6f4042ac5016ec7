//! Arrows point inward: which crate of the workspace may know which.

use std::path::Path;

use super::finding::Finding;
use super::manifest::line_of;
use crate::workspace::{Dependency, Member};

/// What a crate may depend on within the workspace.
struct Rule {
    name: &'static str,
    may_see: &'static [&'static str],
    /// Whether its tests are bound as well.
    binds_tests: bool,
}

const RULES: &[Rule] = &[
    // The hexagon. Even a test of it that needs an adapter is in the wrong crate.
    Rule { name: "ratekeeper", may_see: &[], binds_tests: true },
    Rule { name: "engine-tests", may_see: &["ratekeeper", "test-support"], binds_tests: true },
    Rule { name: "ratekeeper-redis", may_see: &["ratekeeper"], binds_tests: false },
    Rule { name: "ratekeeper-postgres", may_see: &["ratekeeper"], binds_tests: false },
    Rule { name: "ratekeeper-http", may_see: &["ratekeeper"], binds_tests: false },
    // What speaks to the server from elsewhere needs none of its engine.
    Rule { name: "ratekeeper-client", may_see: &[], binds_tests: true },
    // The engine, and the adapters that it serves.
    Rule {
        name: "ratekeeper-server",
        may_see: &["ratekeeper", "ratekeeper-redis", "ratekeeper-postgres", "ratekeeper-http"],
        binds_tests: false,
    },
    // The composition root: the one place that knows everyone.
    Rule {
        name: "ratekeeper-cli",
        may_see: &[
            "ratekeeper",
            "ratekeeper-redis",
            "ratekeeper-postgres",
            "ratekeeper-http",
            "ratekeeper-client",
            "ratekeeper-server",
        ],
        binds_tests: false,
    },
    // What the tests of all crates share; it starts servers as programs and so needs none of their crates.
    Rule { name: "test-support", may_see: &["ratekeeper"], binds_tests: true },
    // Shows how each of the others is used.
    Rule { name: "guides", may_see: &[], binds_tests: false },
    // Must build, fast, when nothing else does.
    Rule { name: "xtask", may_see: &[], binds_tests: true },
];

/// Checks one member against its rule; a crate without one needs a decision first.
pub(crate) fn check(member: &Member, members: &[Member], manifest: &str) -> Vec<Finding> {
    let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
        let what = format!(
            "crate {} has no rule; say in xtask/src/tidy/architecture.rs what it may depend on",
            member.name
        );
        return vec![Finding::new(&member.manifest, 1, what)];
    };
    let is_sibling = |name: &str| name != member.name && members.iter().any(|other| other.name == name);
    let is_breach = |dependency: &&Dependency| {
        let is_bound = rule.binds_tests || !dependency.is_dev;
        is_sibling(&dependency.name) && is_bound && !rule.may_see.contains(&dependency.name.as_str())
    };
    let breaches = member.dependencies.iter().filter(is_breach);
    breaches.map(|dependency| breach(&member.manifest, manifest, rule, dependency)).collect()
}

fn breach(path: &Path, manifest: &str, rule: &Rule, dependency: &Dependency) -> Finding {
    let allowed = match rule.may_see {
        [] => "no sibling".to_owned(),
        names => format!("only {} among its siblings", names.join(", ")),
    };
    let kind = if dependency.is_dev { "dev-depends" } else { "depends" };
    let what = format!("{} {kind} on {}; it may depend on {allowed}", rule.name, dependency.name);
    Finding::new(path, line_of(manifest, &dependency.name), what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;
    use serde_json::json;

    /// What the check says when `name` depends on `dependency` with this kind.
    fn findings(name: &str, dependency: &str, kind: Option<&str>) -> Vec<String> {
        let package = |name: &str| json!({ "name": name, "manifest_path": format!("/w/{name}/Cargo.toml") });
        let names = [
            "ratekeeper",
            "ratekeeper-redis",
            "ratekeeper-http",
            "ratekeeper-server",
            "ratekeeper-cli",
            "new",
        ];
        let mut packages: Vec<_> = names.iter().map(|name| package(name)).collect();
        let at = names.iter().position(|n| *n == name).unwrap();
        packages[at]["dependencies"] = json!([{ "name": dependency, "kind": kind }]);
        let metadata = json!({ "workspace_root": "/w", "target_directory": "/t", "packages": packages });
        let members = Workspace::parse(&metadata).unwrap().members;
        let manifest = format!("[package]\n\n[dependencies]\n{dependency}.workspace = true\n");
        check(&members[at], &members, &manifest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_core_sees_no_sibling_not_even_in_tests() {
        let expected = "ratekeeper/Cargo.toml:4: ratekeeper depends on ratekeeper-redis; \
                        it may depend on no sibling";
        assert_eq!(findings("ratekeeper", "ratekeeper-redis", None), [expected]);
        assert_eq!(findings("ratekeeper", "ratekeeper-http", Some("dev")).len(), 1);
        assert_eq!(findings("ratekeeper", "ratekeeper-http", Some("build")).len(), 1);
    }

    #[test]
    fn the_core_may_see_itself_and_strangers() {
        assert!(findings("ratekeeper", "ratekeeper", Some("dev")).is_empty());
        assert!(findings("ratekeeper", "hashbrown", None).is_empty());
    }

    #[test]
    fn adapters_see_neither_each_other_nor_the_server() {
        assert_eq!(findings("ratekeeper-redis", "ratekeeper-http", None).len(), 1);
        assert_eq!(findings("ratekeeper-http", "ratekeeper-redis", None).len(), 1);
        assert_eq!(findings("ratekeeper-redis", "ratekeeper-server", None).len(), 1);
        assert_eq!(findings("ratekeeper-http", "ratekeeper-server", None).len(), 1);
        assert!(findings("ratekeeper-http", "ratekeeper", None).is_empty());
    }

    #[test]
    fn the_server_sees_the_engine_and_adapters_and_only_the_command_line_sees_all() {
        for name in ["ratekeeper", "ratekeeper-redis", "ratekeeper-http"] {
            assert!(findings("ratekeeper-server", name, None).is_empty());
            assert!(findings("ratekeeper-cli", name, None).is_empty());
        }
        assert!(findings("ratekeeper-cli", "ratekeeper-server", None).is_empty());
        assert_eq!(findings("ratekeeper-server", "ratekeeper-cli", None).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_rule() {
        assert_eq!(findings("new", "serde", None).len(), 1);
    }
}
