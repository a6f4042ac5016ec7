//! The file of state: damaged, of another version, unwritable, shared; and written while the server runs.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use crate::support::{Folder, Server, eventually, ratekeeper, run};

/// Uses up the only token of a key.
const TAKE: &str = "THROTTLE k 1 1 3600";

/// Whether the token is gone.
fn is_taken(server: &Server) -> bool {
    server.ask("THROTTLE k 1 1 3600 0").split(' ').nth(2) == Some("0")
}

/// Starts a server that must not start, and returns what it said.
fn refused(snapshot: &str) -> String {
    let mut command = ratekeeper(&["serve", "--snapshot", snapshot]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that starts says so; one that does not closes its output.
    let started = BufReader::new(child.stdout.take().unwrap()).lines().next();
    let _ = child.kill();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(started.is_none(), "it has started: {started:?} {said}");
    assert_eq!((status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with(&format!("ratekeeper: --snapshot {snapshot}: ")), "{said}");
    said
}

#[test]
fn a_file_that_cannot_be_read_is_moved_aside_and_the_server_starts() {
    let folder = Folder::new("snapshot-damaged");
    let path = folder.path("state.bin");
    let server = Server::with(&["--snapshot", &path]);
    assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    let good = fs::read(&path).unwrap();
    let changed = |index: usize| {
        let mut bytes = good.clone();
        bytes[index] ^= 0x40;
        bytes
    };
    for (bytes, kind) in [
        (b"not a snapshot at all".to_vec(), "damaged"),
        (Vec::new(), "damaged"),
        (good[..good.len() / 2].to_vec(), "damaged"),
        (changed(good.len() - 20), "damaged"),
        (vec![0; good.len()], "damaged"),
        // The last byte of its head is the version.
        (changed(7), "version"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let server = Server::with(&["--snapshot", &path]);
        let said = server.await_log("moved aside");
        assert!(said.contains("ERROR") && said.contains(&path), "{said}");
        assert!(!is_taken(&server), "it starts afresh");
        let at = said.find(&format!("{path}.{kind}-")).unwrap_or_else(|| panic!("{said}"));
        let aside = said[at..].split([' ', '"']).next().unwrap();
        assert_eq!(fs::read(aside).unwrap(), bytes, "nothing is lost");
        assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
        assert!(is_taken(&Server::with(&["--snapshot", &path])), "and works again");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_noticed_at_the_start() {
    let folder = Folder::new("snapshot-unwritable");
    let missing = folder.path("no/such/folder/state.bin");
    assert!(refused(&missing).contains("cannot be written"));
    folder.write("file", "");
    assert!(refused(&folder.path("file/state.bin")).contains("cannot be written"));
    fs::create_dir(folder.path("folder")).unwrap();
    assert!(refused(&folder.path("folder")).contains("it is a folder; name a file in it"));
    let pipe = folder.path("pipe");
    run("mkfifo", &[&pipe]);
    assert!(refused(&pipe).contains("no regular file"));
    assert!(!fs::metadata(&pipe).unwrap().is_file(), "it is where it was");
    run("mkfifo", &[&folder.path("state.lock")]);
    assert!(refused(&folder.path("state")).contains("state.lock is no regular file"));
    assert!(refused("/dev/null").contains("no regular file"));
}

#[test]
fn state_that_cannot_be_written_at_the_end_is_told_and_ends_with_1() {
    let folder = Folder::new("snapshot-gone");
    let inner = folder.path("inner");
    fs::create_dir(&inner).unwrap();
    let path = format!("{inner}/state.bin");
    let server = Server::with(&["--snapshot", &path]);
    fs::remove_dir_all(&inner).unwrap();
    server.signal("TERM");
    let said = server.await_log("state not written");
    assert!(said.contains("ERROR") && said.contains(&path), "{said}");
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn two_servers_do_not_share_a_file() {
    let folder = Folder::new("snapshot-shared");
    let path = folder.path("state.bin");
    let first = Server::with(&["--snapshot", &path]);
    assert_eq!(first.ask(TAKE), "1 1 0 3600 0");
    let said = refused(&path);
    assert!(said.contains("another server uses it") && said.contains(&format!("{path}.lock")), "{said}");
    first.signal("TERM");
    assert_eq!(first.wait().code(), Some(0));
    assert!(is_taken(&Server::with(&["--snapshot", &path])), "the lock has gone with its server");
}

#[test]
fn what_was_written_while_it_ran_outlives_a_crash() {
    let folder = Folder::new("snapshot-every");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path, "--snapshot-every", "50ms"];
    let server = Server::with(&flags);
    assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
    // Written as a new file each time: the second one was begun after the request.
    let file = || fs::metadata(&path).ok().map(|metadata| metadata.ino());
    for _ in 0..2 {
        let before = file();
        eventually("it is written again", || file() != before);
    }
    // Killed, and not told to stop.
    drop(server);
    assert!(is_taken(&Server::with(&flags)));
}
