//! `ratekeeper check`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ratekeeper::Plan;
use ratekeeper_server::config::{Config, ConfigError, Findings};
use ratekeeper_server::rls::RlsSettings;
use ratekeeper_server::{Settings, StoreLocation};
use serde_json::{Value, json};

use super::check_rls::{AskedDescriptor, RlsCheck};
use super::explain::ExplainedPlan;
use super::output::{EXIT_NO, counted, print};
use super::serve::{self, ServeFlags};

/// Prints every mistake with its line, and what every plan means.
#[derive(Debug, Args)]
#[command(after_help = "Example: ratekeeper check ratekeeper.toml\n\
                        For Envoy: ratekeeper check --rls limits --explain 'edge user=bob,path=/x'\n\
                        Exits with 0 if the files are right, and with 1 if there are mistakes.")]
pub(super) struct CheckFlags {
    /// Configuration file to check; the limits for Envoy that it names are checked with it.
    #[arg(value_name = "FILE", required_unless_present = "rls")]
    file: Option<PathBuf>,
    /// YAML file or folder of limits for Envoy to check; may be given several times.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    rls: Vec<PathBuf>,
    /// Let several files of limits say something of one domain.
    #[arg(long, requires = "rls")]
    merge_domains: bool,
    /// Descriptor to explain, such as `edge user=bob,path=/x`: which limit it finds level by level, or why none; may be given
    /// several times.
    #[arg(long, value_name = "DESCRIPTOR")]
    explain: Vec<AskedDescriptor>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(flags: &CheckFlags) -> Result<ExitCode> {
    let file = flags.file.as_deref().map(|path| FileCheck::new(path, &flags.rls)).transpose()?;
    let rls = rls_settings(flags, file.as_ref());
    let plans = file.as_ref().map(|file| &*file.plans);
    let rls = rls.map(|settings| RlsCheck::new(&settings, plans, &flags.explain));
    if flags.json {
        let mut object = file.as_ref().map_or_else(|| json!({}), FileCheck::to_json);
        if let Some(rls) = &rls {
            object["rls"] = rls.to_json();
        }
        print(format_args!("{object}\n"))?;
    } else {
        let mut out = String::new();
        if let Some(file) = &file {
            file.write(&mut out);
        }
        if let Some(rls) = &rls {
            rls.write(&mut out);
        }
        print(out)?;
    }
    let is_ok = file.is_none_or(|file| file.mistakes.is_empty()) && rls.is_none_or(|rls| rls.is_ok());
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NO) })
}

/// Checks what `serve` says of a file in which nothing is wrong by itself: for tests and for fuzzing.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_config(config: &Config, check: impl Fn(&ConfigError)) {
    let Err(error) = serve::check(&ServeFlags::of_rls(&[]), config) else { return };
    match error.downcast_ref::<ConfigError>() {
        Some(mistake) => check(mistake),
        None => {
            let said = error.to_string();
            assert!(!said.is_empty() && said.len() <= 1024 && !said.contains(char::is_control), "{said:?}");
        }
    }
}

/// Returns how limits for Envoy are to be read; none if there are none.
fn rls_settings(flags: &CheckFlags, file: Option<&FileCheck>) -> Option<RlsSettings> {
    let said = file.and_then(|file| file.rls.clone());
    // What is wrong in the file is told; what is known of it goes for these as well.
    let named = || RlsSettings { paths: flags.rls.clone(), ..RlsSettings::default() };
    let mut settings = said.or_else(|| (!flags.rls.is_empty()).then(named))?;
    settings.merges_domains |= flags.merge_domains;
    // A file may leave it to the flag of `serve` which they are.
    (!settings.paths.is_empty()).then_some(settings)
}

/// What was found in a configuration file.
struct FileCheck {
    path: String,
    mistakes: Vec<(Option<usize>, String)>,
    plans: Vec<Plan>,
    /// What is right, and does nothing.
    notes: Vec<&'static str>,
    rls: Option<RlsSettings>,
}

impl FileCheck {
    fn new(path: &Path, rls: &[PathBuf]) -> Result<Self> {
        let Findings { config, plans, errors } = Config::examine(path)?;
        let mut mistakes: Vec<(Option<usize>, String)> =
            errors.iter().map(|error| (error.line(), error.message().to_owned())).collect();
        let (mut settings, mut notes) = (None, Vec::new());
        // What each part says may be right, and together still mean nothing.
        if mistakes.is_empty() {
            match serve::check(&ServeFlags::of_rls(rls), &config) {
                Ok(known) => {
                    notes.extend(idle_lease(&known, &plans));
                    settings = known.rls;
                }
                Err(error) => mistakes.push(match error.downcast_ref::<ConfigError>() {
                    Some(mistake) => (mistake.line(), mistake.message().to_owned()),
                    None => (None, error.to_string()),
                }),
            }
        }
        Ok(FileCheck { path: path.display().to_string(), mistakes, plans, notes, rls: settings })
    }

    fn write(&self, out: &mut String) {
        let file = &self.path;
        // Writing to a string cannot fail.
        for (line, message) in &self.mistakes {
            let _ = match line {
                Some(line) => writeln!(out, "{file}:{line}: {message}"),
                None => writeln!(out, "{file}: {message}"),
            };
        }
        for plan in &self.plans {
            let _ = write!(out, "{}", ExplainedPlan(plan));
        }
        for note in &self.notes {
            let _ = writeln!(out, "{file}: note: {note}");
        }
        let _ = match self.mistakes.len() {
            0 => writeln!(out, "{file}: ok, {}", counted(self.plans.len(), "plan")),
            n => writeln!(out, "{file}: {}", counted(n, "mistake")),
        };
    }

    fn to_json(&self) -> Value {
        let mistake = |(line, message): &(Option<usize>, String)| json!({ "line": line, "message": message });
        json!({
            "file": self.path,
            "ok": self.mistakes.is_empty(),
            "errors": self.mistakes.iter().map(mistake).collect::<Vec<_>>(),
            "notes": self.notes,
            "plans": self.plans.iter().map(|plan| ExplainedPlan(plan).to_json()).collect::<Vec<_>>(),
        })
    }
}

/// Returns why leases that were asked for do nothing, if so.
fn idle_lease(settings: &Settings, plans: &[Plan]) -> Option<&'static str> {
    let is_off = settings.redis.lease.is_off() && plans.iter().all(|plan| plan.lease_setting().is_off());
    match (&settings.store, settings.redis.leased_keys) {
        _ if is_off => None,
        (StoreLocation::Memory, _) => Some(
            "leases do nothing while state is in memory: name a shared store by `[store] url` or `--store`",
        ),
        (_, 0) => Some("leases do nothing while `[store] leased_keys` is 0"),
        (StoreLocation::Redis(_) | StoreLocation::Postgres(_), _) => None,
    }
}
