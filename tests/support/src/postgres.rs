//! A real PostgreSQL of one's own: on a free port, in a directory of its own, gone when dropped.
//!
//! It refuses to run as root, so that a test that is root gives its server to the user `postgres`, or to `nobody`.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::port::free_port;
use crate::wait::{until, until_said, until_stopped};

/// A running server.
#[derive(Debug)]
pub struct Server {
    process: Child,
    port: u16,
    programs: Programs,
    directory: Directory,
    _template: Arc<Template>,
}

/// A data directory of which each server has a copy: making one takes longer than many a test. It goes with the last server.
#[derive(Debug)]
struct Template {
    directory: Directory,
}

impl Template {
    fn get(programs: &Programs) -> Arc<Self> {
        static LAST: Mutex<Weak<Template>> = Mutex::new(Weak::new());
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        last.upgrade().unwrap_or_else(|| {
            let template = Arc::new(Template::new(programs));
            *last = Arc::downgrade(&template);
            template
        })
    }

    fn new(programs: &Programs) -> Self {
        let directory = Directory::new(programs);
        let mut initdb = programs.command("initdb");
        initdb.arg("-D").arg(directory.0.join("data")).args(["-U", "postgres", "--auth=trust", "--no-sync"]);
        initdb.args(["--no-instructions", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.output().expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        Template { directory }
    }
}

/// Where `initdb` and `postgres` are, and who runs them.
#[derive(Clone, Debug)]
struct Programs {
    folder: PathBuf,
    /// User and group; none for whoever runs the test.
    user: Option<(u32, u32)>,
    /// A library that fakes the clock by the file `clock` in the server's directory; none for the machine's own time.
    fake_time: Option<PathBuf>,
}

impl Server {
    /// Starts a server of those programs that `RATEKEEPER_POSTGRES_BIN` names, or of Debian's newest. None if there are none,
    /// which is said.
    pub fn start(settings: &[&str]) -> Option<Self> {
        Self::start_by(settings, None, None)
    }

    /// Starts a server that encrypts connections with this certificate and its key, in PEM form.
    pub fn with_certificate(certificate: &str, key: &str) -> Option<Self> {
        Self::start_by(&["ssl=on"], None, Some((certificate, key)))
    }

    /// Starts a server whose clock can be [stepped](Server::step_clock). None if there is no library for that.
    pub fn with_fake_time() -> Option<Self> {
        let Some(library) = fake_time() else {
            eprintln!(
                "no faketime: set RATEKEEPER_FAKETIME to the path of libfaketimeMT.so.1; clocks are left alone"
            );
            return None;
        };
        Self::start_by(&[], Some(library), None)
    }

    fn start_by(
        settings: &[&str],
        fake_time: Option<PathBuf>,
        certificate: Option<(&str, &str)>,
    ) -> Option<Self> {
        let Some(programs) = Programs::find(fake_time) else {
            eprintln!(
                "no PostgreSQL: set RATEKEEPER_POSTGRES_BIN to the folder of initdb and postgres; nothing is tested"
            );
            return None;
        };
        let directory = Directory::new(&programs);
        let data = directory.0.join("data");
        let template = Template::get(&programs);
        let copied = Command::new("cp").arg("-a").arg(template.directory.0.join("data")).arg(&data).status();
        assert!(copied.expect("cp runs").success(), "the data directory is copied");
        if let Some((certificate, key)) = certificate {
            programs.give(&data.join("server.crt"), certificate);
            programs.give(&data.join("server.key"), key);
        }
        for _ in 0..8 {
            let port = free_port();
            if let Some(process) = run(&programs, &directory, port, settings) {
                return Some(Server { process, port, programs, directory, _template: template });
            }
        }
        panic!("postgres {settings:?}: does not start");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL, for a user.
    pub fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Its address, by the name of this machine, over TLS.
    pub fn encrypted_url(&self) -> String {
        format!("postgres://postgres@localhost:{}/postgres?sslmode=require", self.port)
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Runs statements in a session of their own, and returns the rows that the last one answers.
    pub fn sql(&self, statements: &str) -> Vec<String> {
        // A caller that runs in a runtime cannot start another one on its thread.
        let rows = thread::scope(|scope| scope.spawn(|| query(&self.url(), statements)).join());
        rows.expect("a session").unwrap_or_else(|error| panic!("{statements}: {error:?}"))
    }

    /// Has its clock differ by so many seconds from the machine's, from now on.
    pub fn step_clock(&self, seconds: f64) {
        self.directory.set_clock(seconds);
    }

    /// Kills it with all its processes at once, as a crash of the machine would.
    pub fn kill(&mut self) {
        let family = self.family();
        let _ = self.process.kill();
        family.iter().for_each(|pid| signal(*pid, "-KILL"));
        let _ = self.process.wait();
        until("all of its processes are gone", || {
            family.iter().all(|pid| !Path::new(&format!("/proc/{pid}/exe")).exists())
        });
    }

    /// Stops it in its tracks, as a machine that hangs would: what is connected stays so, and nothing is answered.
    pub fn freeze(&self) {
        signal(self.process.id(), "-STOP");
        until_stopped(self.process.id());
        for pid in self.family() {
            signal(pid, "-STOP");
        }
        for pid in self.family() {
            until_stopped(pid);
        }
    }

    /// Lets it go on after [`freeze`](Server::freeze).
    pub fn thaw(&self) {
        self.family().iter().for_each(|pid| signal(*pid, "-CONT"));
        signal(self.process.id(), "-CONT");
    }

    /// Starts it again on the same port and data, after [`kill`](Server::kill). A process that it was just starting when it was
    /// killed may be in the way for a moment.
    pub fn restart(&mut self, settings: &[&str]) {
        until("it starts again", || {
            let process = run(&self.programs, &self.directory, self.port, settings);
            process.map(|process| self.process = process).is_some()
        });
    }

    /// Has every statement that updates a row take so many seconds more, from now on.
    pub fn slow_down(&self, seconds: f64) {
        self.sql(&format!(
            "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$; \
             CREATE OR REPLACE TRIGGER slow BEFORE UPDATE ON ratekeeper FOR EACH STATEMENT EXECUTE FUNCTION slow()",
        ));
    }

    /// Has it ask this user for a password from now on. It hears of that a little later.
    pub fn ask_for_password(&self, user: &str) {
        let rules = format!(
            "host all {user} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n"
        );
        self.programs.give(&self.directory.0.join("data/pg_hba.conf"), &rules);
        self.sql("SELECT pg_reload_conf()");
    }

    /// Has it begin as a standby when it is [restarted](Server::restart): one that waits for a primary, and reads only.
    pub fn become_standby(&self) {
        self.programs.give(&self.directory.0.join("data/standby.signal"), "");
    }

    /// The processes that it has started.
    fn family(&self) -> Vec<u32> {
        let pid = self.process.id();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Programs {
    fn find(fake_time: Option<PathBuf>) -> Option<Self> {
        let named = std::env::var_os("RATEKEEPER_POSTGRES_BIN").filter(|folder| !folder.is_empty());
        let folder = named.map(PathBuf::from).or_else(newest_of_debian)?;
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        let user = if is_root { ["postgres", "nobody"].into_iter().find_map(ids_of) } else { None };
        Some(Programs { folder, user, fake_time })
    }

    /// Writes a file that only the server's user may read.
    fn give(&self, path: &Path, content: &str) {
        std::fs::write(path, content).expect("a file of the test");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("a file of the test");
        if let Some((user, group)) = self.user {
            chown(path, Some(user), Some(group)).expect("root may give it away");
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Connects, runs statements, and returns the rows of the last one, their columns joined by `|`.
fn query(url: &str, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let messages = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let messages = client.simple_query(statements).await;
        drop(client);
        // It ends when it has said goodbye.
        let _ = connection.await;
        messages
    })?;
    let mut rows = Vec::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => rows.clear(),
            SimpleQueryMessage::Row(row) => {
                let columns: Vec<&str> =
                    (0..row.len()).map(|column| row.get(column).unwrap_or_default()).collect();
                rows.push(columns.join("|"));
            }
            _ => {}
        }
    }
    Ok(rows)
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    // By their numbers: 9.6 is older than 15.
    let number = |folder: &PathBuf| {
        let version =
            folder.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>()
    };
    folders.filter(|folder| folder.join("initdb").exists()).max_by_key(number)
}

/// The numbers of a user and its group.
fn ids_of(user: &str) -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = passwd.lines().find(|line| line.split(':').next() == Some(user))?.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The library that `RATEKEEPER_FAKETIME` names, or Debian's.
fn fake_time() -> Option<PathBuf> {
    let named =
        std::env::var_os("RATEKEEPER_FAKETIME").filter(|library| !library.is_empty()).map(PathBuf::from);
    let of_debian = || {
        let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
        folders
            .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
            .find(|library| library.is_file())
    };
    named.or_else(of_debian)
}

fn signal(pid: u32, signal: &str) {
    // It may have ended by itself.
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Starts the process and waits until it says that it is ready; none if it ends before.
fn run(programs: &Programs, directory: &Directory, port: u16, settings: &[&str]) -> Option<Child> {
    let mut command = programs.command("postgres");
    if let Some(library) = &programs.fake_time {
        directory.set_clock(0.0);
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", directory.0.join("clock"));
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    command.current_dir(&directory.0).arg("-D").arg(directory.0.join("data")).args(["-p", &port.to_string()]);
    command.arg("-k").arg(&directory.0);
    for setting in ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=32MB", "max_connections=40"]
        .iter()
        .chain(settings)
    {
        command.args(["-c", setting]);
    }
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("postgres runs");
    let output = process.stderr.take().expect("it was piped");
    // A standby accepts read-only connections.
    until_said("ready to accept", process, output)
}

/// A temporary directory of the server's user, removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new(programs: &Programs) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Short: the path of a socket has about a hundred bytes.
        let path = std::env::temp_dir().join(format!("rk-pg-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        if let Some((user, group)) = programs.user {
            chown(&path, Some(user), Some(group)).expect("root may give it away");
        }
        Directory(path)
    }

    /// Replaces the file at once: who reads it finds the old one or the new one.
    fn set_clock(&self, seconds: f64) {
        let (new, file) = (self.0.join("clock.new"), self.0.join("clock"));
        std::fs::write(&new, format!("{seconds:+.6}\n")).expect("a file of the test");
        std::fs::rename(new, file).expect("a file of the test");
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
