//! A Debian package is installed into a folder, and what it installed is started, asked, stopped, upgraded and removed.
//!
//! dpkg itself installs, with the package's scripts: they find in `DPKG_ROOT` that the root is not this machine's, and
//! leave its users and services alone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// Far longer than anything here takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

const PROGRAM: &str = "usr/bin/ratekeeper";
const CONFIG: &str = "etc/ratekeeper/ratekeeper.toml";
const STATE: &str = "var/lib/ratekeeper";
/// What the package's scripts enable the unit by; every Debian has it.
const HELPER: &str = "/usr/bin/deb-systemd-helper";
/// Where that puts what the unit is enabled by.
const ENABLED: &str = "etc/systemd/system/multi-user.target.wants/ratekeeper.service";

/// Puts a package through its life, with a later one that has another configuration.
pub(super) fn run(package: &Path, later: &Path, root: &Path) -> Result<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let can_install = is_root && Path::new(HELPER).exists();
    let dpkg = Dpkg { root };
    if can_install {
        dpkg.prepare()?;
        dpkg.run("--install", package.as_os_str())?;
        ensure!(root.join(ENABLED).is_symlink(), "the unit is not enabled");
    } else {
        eprintln!("not root, or no Debian: the package is unpacked, and its scripts are not run");
        run::succeed(Command::new("dpkg-deb").arg("--extract").args([package, root]))?;
    }
    serve(root)?;
    if can_install {
        let mine = "\n# Written by the administrator.\n";
        let config = root.join(CONFIG);
        let changed = fs::read_to_string(&config)? + mine;
        fs::write(&config, &changed)?;
        dpkg.run("--install", later.as_os_str())?;
        ensure!(fs::read_to_string(&config)? == changed, "an upgrade lost what the administrator wrote");
        let beside = root.join(format!("{CONFIG}.dpkg-dist"));
        ensure!(beside.exists(), "an upgrade did not leave the new configuration beside the administrator's");
        dpkg.run("--remove", "ratekeeper".as_ref())?;
        ensure!(
            !root.join(PROGRAM).exists() && config.exists(),
            "removing takes the program and leaves its file"
        );
        dpkg.run("--purge", "ratekeeper".as_ref())?;
        for left in [CONFIG, STATE, ENABLED] {
            ensure!(
                !root.join(left).exists() && !root.join(left).is_symlink(),
                "purged, but /{left} is left"
            );
        }
    }
    Ok(())
}

/// dpkg, with a system of its own in a folder.
struct Dpkg<'a> {
    root: &'a Path,
}

impl Dpkg<'_> {
    /// A system with no packages.
    fn prepare(&self) -> Result<()> {
        let database = self.root.join("var/lib/dpkg");
        for folder in ["info", "updates"] {
            fs::create_dir_all(database.join(folder))?;
        }
        fs::create_dir_all(self.root.join("var/log"))?;
        for file in ["available", "status"] {
            fs::write(database.join(file), "")?;
        }
        Ok(())
    }

    fn run(&self, action: &str, what: &std::ffi::OsStr) -> Result<()> {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", self.root.display()));
        // The folder has none of the libraries, and no shell to change root to.
        dpkg.args(["--force-depends", "--force-script-chrootless", "--force-confdef", "--force-confold"]);
        // Whatever the caller's path is, dpkg wants the tools of an administrator on it.
        dpkg.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        let output = dpkg.arg(action).arg(what).stdin(Stdio::null()).output().context("cannot run dpkg")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "dpkg {action} failed: {said}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        Ok(())
    }
}

/// Starts the server by the line of the unit, asks it over two transports, and stops it as systemd would.
fn serve(root: &Path) -> Result<()> {
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/ratekeeper.service"))?;
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("the unit starts nothing")?;
    let state = root.join(STATE);
    // systemd makes it, and would say where it is.
    fs::create_dir_all(&state)?;
    let words = command(line, root, &state)?;
    let (program, arguments) = words.split_first().context("the unit starts nothing")?;
    let mut command = Command::new(program);
    command.args(arguments);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RATEKEEPER_") {
            command.env_remove(name);
        }
    }
    let server = Server::start(&mut command)?;
    let answer = ask(server.address("resp")?, "ACQUIRE user:42 free\r\n", 2)?;
    ensure!(answer.starts_with("*6\r\n:1\r\n"), "ACQUIRE was answered {answer:?}");
    let answer = ask(server.address("http")?, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n", 1)?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "/health was answered {answer:?}");
    server.stop()?;
    ensure!(state.join("state.bin").is_file(), "the state was not written when the server stopped");
    Ok(())
}

/// The words of a unit's line, with the paths of an installed system below a folder.
fn command(line: &str, root: &Path, state: &Path) -> Result<Vec<String>> {
    let words: Vec<String> = line
        .replace("${STATE_DIRECTORY}", "/STATE")
        .split(' ')
        .map(|word| match word.strip_prefix("/STATE") {
            Some(rest) => format!("{}{rest}", state.display()),
            None if word.starts_with('/') => format!("{}{word}", root.display()),
            None => word.to_owned(),
        })
        .collect();
    if let Some(unknown) = words.iter().find(|word| word.contains('$')) {
        bail!("ExecStart has `{unknown}`, which only systemd knows");
    }
    Ok(words)
}

/// A server that has said where it listens; it is killed if it is still there at the end.
struct Server {
    child: Child,
    addresses: Vec<(String, SocketAddr)>,
    ended: Receiver<String>,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start it")?;
        let output = child.stdout.take().context("it has no output")?;
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut server = Server { child, addresses: Vec::new(), ended };
        loop {
            let line = server.ended.recv_timeout(DEADLINE).context("the server did not become ready")?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["listening", name, address] => server.addresses.push((name.to_owned(), address.parse()?)),
                ["ready"] => return Ok(server),
                _ => bail!("the server said `{line}`"),
            }
        }
    }

    fn address(&self, transport: &str) -> Result<SocketAddr> {
        let found = self.addresses.iter().find(|(name, _)| name == transport);
        Ok(found.with_context(|| format!("the server does not listen for {transport}"))?.1)
    }

    /// As systemd stops it.
    fn stop(mut self) -> Result<()> {
        run::succeed(Command::new("kill").args(["-TERM", &self.child.id().to_string()]))?;
        // Its output ends when it does.
        while !matches!(self.ended.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected)) {}
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Best effort: it has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends something and returns the first lines of what comes back.
fn ask(address: SocketAddr, what: &str, lines: usize) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(what.as_bytes())?;
    let mut reader = BufReader::new(&stream);
    let mut answer = String::new();
    for _ in 0..lines {
        reader.read_line(&mut answer)?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_line_is_started_below_the_folder() {
        let line = "/usr/bin/ratekeeper serve --config /etc/r.toml --snapshot ${STATE_DIRECTORY}/state.bin";
        let words = command(line, Path::new("/root"), Path::new("/state")).unwrap();
        let expected = [
            "/root/usr/bin/ratekeeper",
            "serve",
            "--config",
            "/root/etc/r.toml",
            "--snapshot",
            "/state/state.bin",
        ];
        assert_eq!(words, expected);
        assert!(command("/bin/x $MAINPID", Path::new("/"), Path::new("")).is_err());
    }
}
