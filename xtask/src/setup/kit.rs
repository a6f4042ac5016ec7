//! The Redis tools that tests use: a server, a command line, a sentinel.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What was found. Redis and Valkey servers are kept apart, since tests may want to run against both.
#[derive(Debug, Default)]
pub(crate) struct Kit {
    pub(crate) redis: Option<PathBuf>,
    pub(crate) valkey: Option<PathBuf>,
    pub(crate) cli: Option<PathBuf>,
    pub(crate) sentinel: Option<PathBuf>,
}

impl Kit {
    /// Looks in these directories, in order.
    pub(crate) fn find(directories: &[PathBuf]) -> Self {
        let find = |name: &str| directories.iter().map(|dir| dir.join(name)).find(|path| is_executable(path));
        Self {
            redis: find("redis-server"),
            valkey: find("valkey-server"),
            cli: find("redis-cli").or_else(|| find("valkey-cli")),
            sentinel: find("redis-sentinel").or_else(|| find("valkey-sentinel")),
        }
    }

    /// The server that tests use when any will do.
    pub(crate) fn server(&self) -> Option<&Path> {
        self.redis.as_deref().or(self.valkey.as_deref())
    }

    /// The Debian packages that would complete the kit.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.gaps().map(|(package, _)| package).collect()
    }

    /// What is not there, by command name.
    pub(crate) fn missing_names(&self) -> Vec<&'static str> {
        self.gaps().map(|(_, command)| command).collect()
    }

    /// (package, command) of what is not there.
    fn gaps(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let tools = [
            (self.server(), "redis-server", "redis-server"),
            (self.cli.as_deref(), "redis-tools", "redis-cli"),
            (self.sentinel.as_deref(), "redis-sentinel", "redis-sentinel"),
        ];
        tools.into_iter().filter(|(path, ..)| path.is_none()).map(|(_, package, command)| (package, command))
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_machine_needs_three_packages() {
        assert_eq!(Kit::find(&[]).missing(), ["redis-server", "redis-tools", "redis-sentinel"]);
    }

    #[test]
    fn valkey_tools_count_as_well() {
        let some = || Some(PathBuf::from("/x"));
        let kit = Kit { valkey: some(), cli: some(), ..Kit::default() };
        assert_eq!(kit.missing_names(), ["redis-sentinel"]);
        assert_eq!(kit.server(), Some(Path::new("/x")));
    }

    #[test]
    fn a_plain_file_is_no_server() {
        assert!(!is_executable(Path::new("Cargo.toml")));
        assert!(!is_executable(Path::new("/")));
        assert!(is_executable(Path::new("/bin/sh")));
    }
}
