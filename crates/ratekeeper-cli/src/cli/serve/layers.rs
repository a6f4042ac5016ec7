//! One setting from several layers: the flag (the environment is in it already) over the file.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::anyhow;
use ratekeeper_server::config::{Config, ConfigFile, DurationText};

use super::flags::ServeFlags;

/// How far what is written is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Token files are read, and names of hosts are looked up.
    Start,
    /// They are not: nobody would use what is found, and they may be away for a while, or on another machine.
    Check,
}

/// What was said, layer by layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers<'a> {
    pub(super) flags: &'a ServeFlags,
    pub(super) file: &'a ConfigFile,
    /// The file as it was read, to name lines; `None` if there is no file.
    pub(super) config: Option<&'a Config>,
    pub(super) effort: Effort,
}

impl<'a> Layers<'a> {
    /// Returns what the flag says, or else the file: each by its name, as in `("--drain", …)` and `("server.drain", …)`.
    pub(super) fn pick<T>(
        &self,
        (flag, by_flag): (&'static str, Option<T>),
        (setting, by_file): (&'static str, Option<T>),
    ) -> Given<'a, T> {
        let is_flag = by_flag.is_some();
        Given { value: by_flag.or(by_file), is_flag, flag, setting, config: self.config }
    }

    /// Returns the error about a flag, or about a setting of the file: with file, line and table.
    pub(super) fn mistake(
        &self,
        is_flag: bool,
        flag: &str,
        setting: &str,
        message: impl Display,
    ) -> anyhow::Error {
        mistake(self.config, is_flag, flag, setting, message)
    }
}

/// A setting, and where it was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a, T> {
    pub(super) value: Option<T>,
    is_flag: bool,
    flag: &'static str,
    setting: &'static str,
    config: Option<&'a Config>,
}

impl<T> Given<'_, T> {
    /// Returns the error about this setting, named where it was given.
    pub(super) fn wrong(&self, message: impl Display) -> anyhow::Error {
        mistake(self.config, self.is_flag, self.flag, self.setting, message)
    }
}

impl Given<'_, DurationText> {
    /// Returns the duration, if one was given and it lies within the bounds.
    pub(super) fn within(self, bounds: RangeInclusive<Duration>) -> anyhow::Result<Option<Duration>> {
        match self.value {
            Some(DurationText(time)) if !bounds.contains(&time) => {
                let (least, most) = (bounds.start(), bounds.end());
                Err(self.wrong(format_args!("{time:?}; must be from {least:?} to {most:?}")))
            }
            given => Ok(given.map(|DurationText(time)| time)),
        }
    }
}

fn mistake(
    config: Option<&Config>,
    is_flag: bool,
    flag: &str,
    setting: &str,
    message: impl Display,
) -> anyhow::Error {
    match (config, setting.rsplit_once('.')) {
        (Some(config), Some((table, name))) if !is_flag => {
            config.mistake(setting, format!("[{table}] {name}: {message}")).into()
        }
        _ => anyhow!("{flag}: {message}"),
    }
}
