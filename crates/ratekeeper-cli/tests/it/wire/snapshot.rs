//! The file of state: damaged, of another version, unwritable, shared; and written while the server runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::wire::http::get;
use crate::wire::mounts::{SMALL_DISK, mounted};
use test_support::server::{Folder, Server, not_started, ratekeeper, run, until};

/// Uses up the only token of a key.
const TAKE: &str = "THROTTLE k 1 1 3600";

/// Whether the token is gone.
fn is_taken(server: &Server) -> bool {
    server.ask("THROTTLE k 1 1 3600 0").split(' ').nth(2) == Some("0")
}

/// Writes a new file in the place of the snapshot. A server that was killed between two steps leaves one file under both names, and
/// only one of them is to be damaged.
pub(crate) fn replace(path: &str, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Starts a server that must not start, and returns what it said.
fn refused(snapshot: &str) -> String {
    let mut command = ratekeeper(&["serve", "--snapshot", snapshot]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    let (code, said) = not_started(&mut command);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
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

/// Takes the token, and waits until the file and the one before both know of it.
fn written_twice(server: &Server, path: &str) {
    assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
    // The first of them may have been begun before the request.
    await_files(path, 3);
}

/// Waits for so many more files: each is a new one.
fn await_files(path: &str, more: usize) {
    let file = || fs::metadata(path).ok().map(|metadata| metadata.ino());
    for _ in 0..more {
        let before = file();
        until("it is written again", || file() != before);
    }
}

/// One number of the metrics.
fn metric(server: &Server, name: &str) -> u64 {
    let page = get(server, "/metrics").body;
    let line = page.lines().find(|line| line.starts_with(name));
    let (_, number) = line.unwrap_or_else(|| panic!("no {name}: {page}")).rsplit_once(' ').unwrap();
    number.parse().unwrap()
}

#[test]
fn the_one_before_is_used_if_the_newest_is_damaged() {
    let folder = Folder::new("snapshot-before");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path, "--snapshot-every", "50ms"];
    let server = Server::with(&flags);
    written_twice(&server, &path);
    drop(server);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    replace(&path, &bytes);
    let server = Server::with(&flags);
    let said = server.await_log("the one before is used");
    assert!(said.contains("WARN") && said.contains(&format!("{path}.before")), "{said}");
    assert!(said.contains("age="), "{said}");
    assert!(is_taken(&server));
    assert_eq!(metric(&server, "ratekeeper_snapshots_unreadable_total"), 1);
    // And goes on: the next start finds two whole ones.
    await_files(&path, 2);
    drop(server);
    let server = Server::with(&flags);
    assert!(server.await_log("snapshot: restored").contains("INFO") && is_taken(&server));
    assert_eq!(metric(&server, "ratekeeper_snapshots_unreadable_total"), 0);
}

#[test]
fn if_both_are_damaged_limits_start_afresh() {
    let folder = Folder::new("snapshot-both");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path, "--snapshot-every", "50ms"];
    let server = Server::with(&flags);
    written_twice(&server, &path);
    drop(server);
    let before = format!("{path}.before");
    for path in [&path, &before] {
        let bytes = fs::read(path).unwrap();
        replace(path, &bytes[..bytes.len() - 1]);
    }
    let server = Server::with(&flags);
    let said = server.await_log("the one before cannot be read either");
    assert!(said.contains("ERROR") && said.contains(&before), "{said}");
    assert!(server.await_log("limits start afresh").contains("ERROR"));
    assert!(!is_taken(&server), "it serves");
    assert_eq!(metric(&server, "ratekeeper_snapshots_unreadable_total"), 2);
    await_files(&path, 2);
    drop(server);
    assert!(Server::with(&flags).await_log("snapshot: restored").contains("INFO"));
}

/// Damages the newest of two files that both know of the token.
fn damage_newest(path: &str) {
    let server = Server::with(&["--snapshot", path, "--snapshot-every", "50ms"]);
    written_twice(&server, path);
    drop(server);
    let bytes = fs::read(path).unwrap();
    replace(path, &bytes[..bytes.len() - 1]);
}

/// The one before was used in memory alone: whatever ended the server before it wrote forgot every key.
#[test]
fn the_one_before_is_used_again_after_a_crash_before_anything_was_written() {
    let folder = Folder::new("snapshot-before-crash");
    let path = folder.path("state.bin");
    damage_newest(&path);
    for flags in [&["--snapshot", &path][..], &["--snapshot", &path, "--snapshot-every", "1h"]] {
        for _ in 0..2 {
            // Killed by SIGKILL.
            assert!(is_taken(&Server::with(flags)), "{flags:?}");
        }
    }
    assert!(fs::exists(format!("{path}.before")).unwrap());
}

#[test]
fn the_one_before_is_used_again_after_a_start_that_failed() {
    let folder = Folder::new("snapshot-before-start");
    let path = folder.path("state.bin");
    damage_newest(&path);
    let other = Server::start();
    let address = other.address("resp").to_string();
    let (code, said) = not_started(&mut ratekeeper(&["serve", "--snapshot", &path, "--resp", &address]));
    assert_eq!(code, Some(75), "{said}");
    assert!(is_taken(&Server::with(&["--snapshot", &path])));
}

/// More than the store may hold is a matter of settings: nothing is moved, and the next start has all of it.
#[test]
fn one_before_that_is_too_large_is_left_alone_and_so_is_the_newest() {
    let folder = Folder::new("snapshot-before-large");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path, "--snapshot-every", "50ms"];
    let server = Server::with(&flags);
    fill(&server, 300);
    written_twice(&server, &path);
    drop(server);
    let bytes = fs::read(&path).unwrap();
    replace(&path, &bytes[..bytes.len() - 1]);
    for _ in 0..2 {
        let (code, said) = not_started(&mut ratekeeper(&["serve", "--snapshot", &path, "--max-keys", "100"]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("state.bin.before") && said.contains("max_keys"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), bytes[..bytes.len() - 1], "it is where it was");
    }
    assert!(is_taken(&Server::with(&flags)));
}

/// Returns the levels and texts of the snapshot events of the console.
fn snapshot_events(server: &Server) -> Vec<(String, String)> {
    let events = get(server, "/v1/events").json();
    let events = events["events"].as_array().unwrap().iter();
    let of_snapshots = events.filter(|event| event["kind"] == "snapshot");
    let text = |event: &serde_json::Value, field: &str| event[field].as_str().unwrap().to_owned();
    of_snapshots.map(|event| (text(event, "level"), text(event, "text"))).collect()
}

#[test]
fn what_became_of_the_file_is_among_the_events() {
    let folder = Folder::new("snapshot-events");
    let path = folder.path("state.bin");
    damage_newest(&path);
    let flags = ["--snapshot", path.as_str()];
    for (level, text) in [("warn", "the one before is used"), ("info", "state restored")] {
        let events = snapshot_events(&Server::with(&flags));
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].0 == level && events[0].1.contains(text), "{events:?}");
    }
    fs::remove_file(format!("{path}.before")).unwrap();
    fs::write(&path, "mumble").unwrap();
    let events = snapshot_events(&Server::with(&flags));
    assert!(events[0].0 == "error" && events[0].1.contains("limits start afresh"), "{events:?}");
}

/// Returns a command of a server that has to respect the permissions of files, also if root runs the test.
fn without_privileges(flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let drop = "-dac_override,-dac_read_search";
    command.args(["-c", "if [ \"$(id -u)\" = 0 ]; then drop=$0; exec setpriv --inh-caps=$drop --bounding-set=$drop \"$@\"; fi; exec \"$@\"", drop]);
    command.arg(ratekeeper(&[]).get_program()).arg("serve").args(flags);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    command
}

/// It cannot be synced, and what was written is written all the same.
#[test]
fn a_folder_that_cannot_be_read_is_told_once_and_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("snapshot-unlisted");
    let inner = folder.path("inner");
    fs::create_dir(&inner).unwrap();
    let path = format!("{inner}/state.bin");
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o300)).unwrap();
    let server = Server::spawn(&mut without_privileges(&["--snapshot", &path, "--snapshot-every", "50ms"]));
    assert!(server.await_log("cannot be synced").contains("WARN"));
    written_twice(&server, &path);
    assert_eq!(metric(&server, "ratekeeper_snapshots_total{result=\"error\"}"), 0);
    server.signal("TERM");
    let status = server.wait();
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Nothing is wrong with its bytes: it is not called damaged, and nothing is touched.
#[test]
fn a_file_that_may_not_be_opened_is_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("snapshot-forbidden");
    let path = folder.path("state.bin");
    let server = Server::with(&["--snapshot", &path]);
    assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let (code, said) = not_started(&mut without_privileges(&["--snapshot", &path]));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot be read; make it readable, or move it away"), "{said}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(is_taken(&Server::with(&["--snapshot", &path])));
}

/// Two names of one file are one file: the lock is beside the file, and the link stays one.
#[test]
fn a_link_is_followed() {
    let folder = Folder::new("snapshot-link");
    let (path, link) = (folder.path("state.bin"), folder.path("link"));
    std::os::unix::fs::symlink("state.bin", &link).unwrap();
    let server = Server::with(&["--snapshot", &link]);
    assert_eq!(server.ask(TAKE), "1 1 0 3600 0");
    assert!(refused(&path).contains("another server uses it"));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(is_taken(&Server::with(&["--snapshot", &path])));
}

/// An operator who removes the file wants to start afresh.
#[test]
fn a_file_that_was_removed_does_not_come_back() {
    let folder = Folder::new("snapshot-removed");
    let path = folder.path("state.bin");
    let flags = ["--snapshot", &path, "--snapshot-every", "50ms"];
    let server = Server::with(&flags);
    written_twice(&server, &path);
    drop(server);
    fs::remove_file(&path).unwrap();
    let server = Server::with(&flags);
    let said = server.await_log("there is none");
    assert!(said.contains("WARN") && said.contains(&format!("rename {path}.before")), "{said}");
    assert!(!is_taken(&server));
}

#[test]
fn a_folder_that_vanishes_is_told_counted_and_found_again() {
    let folder = Folder::new("snapshot-vanished");
    let inner = folder.path("inner");
    fs::create_dir(&inner).unwrap();
    let path = format!("{inner}/state.bin");
    let server = Server::with(&["--snapshot", &path, "--snapshot-every", "50ms"]);
    written_twice(&server, &path);
    // By one call: the server may write a file while others are removed.
    fs::rename(&inner, folder.path("gone")).unwrap();
    let said = server.await_log("state not written");
    assert!(said.contains("ERROR") && said.contains(&path), "{said}");
    assert!(metric(&server, "ratekeeper_snapshots_total{result=\"error\"}") >= 1);
    assert!(is_taken(&server), "it serves");
    fs::create_dir(&inner).unwrap();
    assert!(server.await_log("state written again").contains("failures="));
    // The lock was in the folder, and is taken again.
    assert!(refused(&path).contains("another server uses it"));
    drop(server);
    assert!(is_taken(&Server::with(&["--snapshot", &path])));
}

/// Fills a server with so many keys.
fn fill(server: &Server, keys: usize) {
    let mut raw = server.connect();
    for key in 0..keys {
        assert!(raw.ask(&format!("THROTTLE fill:{key} 1 1 3600")).starts_with("1 "));
    }
}

/// A file that may not grow: the kernel would end a process that does not expect it.
#[test]
fn a_file_that_may_not_grow_is_told_and_the_old_one_stays() {
    let folder = Folder::new("snapshot-too-large");
    let path = folder.path("state.bin");
    let mut shell = Command::new("sh");
    // In blocks of 512 bytes.
    shell.args(["-c", "ulimit -f 8; exec \"$@\"", "sh"]).arg(ratekeeper(&[]).get_program());
    shell.args(["serve", "--snapshot", &path, "--snapshot-every", "50ms"]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        shell.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut shell);
    written_twice(&server, &path);
    fill(&server, 1_000);
    let said = server.await_log("state not written");
    assert!(said.contains("ERROR") && said.contains("File too large"), "{said}");
    assert!(metric(&server, "ratekeeper_snapshots_total{result=\"error\"}") >= 1);
    assert!(is_taken(&server), "it serves");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1));
    assert!(!fs::exists(format!("{path}.part")).unwrap(), "half of one is of no use");
    assert!(is_taken(&Server::with(&["--snapshot", &path])), "the old one is whole");
}

/// A disk that is really full, in a file system of the server's own. Not everybody may have one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_and_used_again_when_there_is_room() {
    let folder = Folder::new("snapshot-full");
    let disk = folder.path("disk");
    fs::create_dir(&disk).unwrap();
    let path = format!("{disk}/state.bin");
    let script = format!("head -c 40000 /dev/zero > \"{disk}/filler\"; exec \"$@\"");
    let Some(mut command) = mounted(&disk, SMALL_DISK, &script) else { return };
    command.arg(ratekeeper(&[]).get_program());
    command.args(["serve", "--snapshot", &path, "--snapshot-every", "50ms"]);
    for transport in ["--resp", "--http", "--grpc", "--msgpack"] {
        command.args([transport, "127.0.0.1:0"]);
    }
    let server = Server::spawn(&mut command);
    // The disk as the server sees it.
    let seen = format!("/proc/{}/root{disk}", server.pid());
    written_twice(&server, &format!("{seen}/state.bin"));
    fill(&server, 1_000);
    let said = server.await_log("state not written");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(is_taken(&server), "it serves");
    until("half a snapshot is removed", || !fs::exists(format!("{seen}/state.bin.part")).unwrap());
    fs::remove_file(format!("{seen}/filler")).unwrap();
    server.await_log("state written again");
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
    written_twice(&server, &path);
    // Killed by SIGKILL.
    drop(server);
    assert!(is_taken(&Server::with(&flags)));
}
