//! The steps of a command, and the table of what each took.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::run::{self, say};

/// Ticks of `/proc` in a second: the same on every Linux.
const TICKS: u64 = 100;

/// Runs steps one after the other and remembers how long each took.
#[derive(Debug, Default)]
pub(crate) struct Steps(Vec<Step>);

#[derive(Debug)]
struct Step {
    name: String,
    wall: Duration,
    /// Of this process and the processes that it has waited for; zero where there is no `/proc`.
    processor: Duration,
}

impl Steps {
    /// Announces a step and runs it. A failure carries the step's name.
    pub(crate) fn run<T>(&mut self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let (began, before) = (Instant::now(), processor_time());
        let outcome = run::step(name, body);
        let step = Step {
            name: name.to_owned(),
            wall: began.elapsed(),
            processor: processor_time().saturating_sub(before),
        };
        self.0.push(step);
        outcome
    }

    /// Prints the table, and `missing`: what was not on this machine and could not be installed, so that its tests were skipped.
    pub(crate) fn print(&self, command: &str, missing: &[String]) {
        say(&format!("\n{}", self.table(command)));
        for tool in missing {
            say(&format!("not run: tests that need {tool}"));
        }
    }

    fn table(&self, command: &str) -> String {
        let mut table = format!("| {command} | wall, s | processor, s |\n|---|---|---|\n");
        let mut row = |name: &str, wall: Duration, processor: Duration| {
            let _ =
                writeln!(table, "| {name} | {:.0} | {:.0} |", wall.as_secs_f64(), processor.as_secs_f64());
        };
        for step in &self.0 {
            row(&step.name, step.wall, step.processor);
        }
        row(
            "in all",
            self.0.iter().map(|step| step.wall).sum(),
            self.0.iter().map(|step| step.processor).sum(),
        );
        table
    }
}

/// The processor time of this process and of the processes that it has waited for.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which is in parentheses and may contain anything: state, then numbers; user and system time are the 14th to 17th
    // fields of the line.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failure_carries_the_name_of_its_step() {
        let error = Steps::default().run("clippy", || -> Result<()> { bail!("exit 101") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `clippy` failed: exit 101");
    }

    #[test]
    fn the_table_has_a_row_for_each_step_and_their_sum() {
        let step = |name: &str, wall, processor| Step {
            name: name.to_owned(),
            wall: Duration::from_secs(wall),
            processor: Duration::from_secs(processor),
        };
        let steps = Steps(vec![step("build", 250, 480), step("test", 200, 300)]);
        let expected = "| test | wall, s | processor, s |\n|---|---|---|\n\
                        | build | 250 | 480 |\n| test | 200 | 300 |\n| in all | 450 | 780 |\n";
        assert_eq!(steps.table("test"), expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn processor_time_includes_finished_children() {
        let before = processor_time();
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", spin]).status().unwrap().success());
        assert!(processor_time() > before);
    }
}
