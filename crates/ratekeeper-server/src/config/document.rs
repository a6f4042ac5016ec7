//! A configuration file that was read.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, line_at};
use super::file::ConfigFile;

/// A configuration file that was read, and where it is.
#[derive(Clone)]
pub struct Config {
    path: PathBuf,
    text: String,
    /// What it says, but for the plans: [`Config::plans`] checks those.
    pub file: ConfigFile,
}

impl Config {
    /// The largest file that is read, in bytes: a file under watch is read once a second.
    pub const MAX_BYTES: u64 = 4 * 1024 * 1024;

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is larger than [`MAX_BYTES`](Self::MAX_BYTES), or says something that is not known.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(path, Self::read_text(path)?)
    }

    /// Returns what a file contains, whatever it means.
    pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
        let wrong = |message: String| ConfigError::new(path, None, &message);
        let mut text = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(Self::MAX_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if text.len() as u64 > Self::MAX_BYTES {
            return Err(wrong(format!(
                "too large: a configuration file has at most {} bytes",
                Self::MAX_BYTES
            )));
        }
        Ok(text)
    }

    /// Understands what a file contains. The path is only named in messages.
    ///
    /// # Errors
    ///
    /// The text is not TOML, or says something that is not known: the first mistake, with its line.
    pub fn parse(path: &Path, text: String) -> Result<Self, ConfigError> {
        let file = toml::from_str(&text).map_err(|error| ConfigError::of_toml(path, &text, &error))?;
        Ok(Config::of(path, text, file))
    }

    /// Returns a file that was read and understood.
    pub(super) fn of(path: &Path, text: String, file: ConfigFile) -> Self {
        Config { path: path.to_owned(), text, file }
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the error about what stands at a position of the file.
    pub(super) fn error(&self, at: usize, message: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.path, Some(line_at(&self.text, at)), &message.into())
    }

    /// Returns what the file contains, as it was read.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the error about a setting, named as in `store.url`: with the line of the setting, or of the table that it
    /// should be in.
    pub fn mistake(&self, setting: &str, message: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.path, self.line_of(setting), &message.into())
    }

    fn line_of(&self, setting: &str) -> Option<usize> {
        let document = DeTable::parse(&self.text).ok()?;
        let mut table = document.get_ref();
        let mut at = None;
        for part in setting.split('.') {
            let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == part) else { break };
            at = Some(key.span().start);
            let DeValue::Table(inner) = value.get_ref() else { break };
            table = inner;
        }
        at.map(|at| line_at(&self.text, at))
    }
}

impl fmt::Debug for Config {
    /// Without the text: there may be a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("path", &self.path).field("file", &self.file).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let path = Path::new("a.toml");
        let config = Config::parse(path, text.to_owned());
        config.and_then(|config| config.plans().map(|_| ())).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_what_would_be_right() {
        for (text, expected) in [
            ("[server]\nlog_levle = \"info\"\n", "a.toml:2: unknown field `log_levle`, expected one of"),
            ("[transport.resp]\n", "a.toml:1: unknown field `transport`, expected one of"),
            ("[limits]\ndefault_burst = \"x\"\n", "a.toml:2: invalid type: string \"x\""),
            ("server = 1\n", "a.toml:1: invalid type: integer `1`, expected a table"),
            (
                "[plans]\ngold = \"10/s\"\n",
                "a.toml:2: invalid type: string \"10/s\", expected a table with `limits = [\"10/s\", …]`",
            ),
            ("[server\n", "a.toml:1: "),
            ("[plans.gold]\nlimits = [\"10/s\",\n  \"1000/dya\"]\n", "a.toml:3: plan `gold`: period: `dya`"),
            ("[plans.\"go ld\"]\nlimits = [\"1/s\"]\n", "a.toml:1: plan `go ld`: name: `go ld`"),
            ("[plans.gold]\nlimits = []\n", "a.toml:2: plan `gold`: rules: none"),
            (
                "[plans.gold]\non_store_error = \"opne\"\nlimits = [\"1/s\"]\n",
                "a.toml:2: unknown variant `opne`",
            ),
            ("[plans.gold]\n", "a.toml:1: missing field `limits`"),
            ("[plans.gold]\nlimits = [\"redis://:sesame@h\"]\n", "a.toml:2: plan `gold`: "),
            ("[server]\ndrain = \"10\"\n", "a.toml:2: not a duration; write a whole number with its unit"),
        ] {
            let said = error(text);
            assert!(said.starts_with(expected), "{text}: {said}");
            assert!(!said.contains('\n') && !said.contains("sesame"), "{said}");
        }
    }

    #[test]
    fn everything_that_a_file_may_say() {
        let text = r#"
            [server]
            log_level = "debug"
            log_format = "json"
            loops = 2
            auth_token = "sesame"
            admin_token_file = "admin.token"
            metrics_token = "scrape"
            top_denied = 10
            log_denials = 5
            drain = "10s"
            [transports.resp]
            enabled = true
            host = "127.0.0.1"
            port = 6380
            max_connections = 10
            idle_timeout = 60
            request_timeout = 5
            [store]
            type = "memory"
            max_keys = 1000
            max_bytes = "64MB"
            kept_for_plans = "25%"
            keep_keys = false
            snapshot = "state.bin"
            snapshot_every = "30s"
            timeout = "250ms"
            connect_timeout = "2s"
            prefix = "shop"
            lease = "50ms"
            leased_keys = 1000
            [store.breaker]
            enabled = true
            failures = 3
            percent = 20
            least = 10
            window = "30s"
            rest = "5s"
            [limits]
            default_burst = 10
            default_rate = 100
            default_period = 60
            on_store_error = "open"
            max_period = "7d"
            allow_log = true
            max_log_entries = 100
            plans_only = false
            [otlp]
            url = "http://localhost:4318"
            sample = "1%"
            service = "limits"
            [record]
            file = "trace"
            sample = "0.5%"
            max_bytes = "10MB"
            files = 3
            keys = "clear"
            [plans.gold]
            limits = ["10/s burst 20", "daily = 1000/day"]
            on_store_error = "closed"
            lease = "10%"
        "#;
        let config = Config::parse(Path::new("a.toml"), text.to_owned()).unwrap();
        assert_eq!(config.file.server.loops.map(std::num::NonZeroUsize::get), Some(2));
        assert_eq!(config.file.transports.resp.port, Some(6380));
        let plans = config.plans().unwrap();
        assert_eq!(plans[0].to_string(), "per-s=10/s burst 20; daily=1000/day");
        assert_eq!(plans[0].failure_mode().word(), "closed");
    }
}
