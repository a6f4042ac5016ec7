//! A Debian package: the program, a unit that starts it as a user of its own, and its configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::contents::Contents;
use super::effort::PackingEffort;
use super::tree::FileTree;
use crate::run;
use crate::workspace::Workspace;

const DOCUMENTS: &str = "usr/share/doc/ratekeeper";
const CONFIG: &str = "etc/ratekeeper/ratekeeper.toml";
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
/// Above this many bytes Debian wants a document packed.
const LARGE: u64 = 4096;

/// What each line of the unit becomes in the package.
const UNIT: [(&str, &str); 3] = [
    (
        "# The server under systemd. Copy the binary to /usr/local/bin/ratekeeper, this file to /etc/systemd/system/, the\n\
         # configuration to /etc/ratekeeper/ratekeeper.toml, and then: systemctl enable --now ratekeeper\n",
        "# The server under systemd. `systemctl edit ratekeeper` changes it; the package replaces this file.\n",
    ),
    ("/usr/local/bin/ratekeeper", "/usr/bin/ratekeeper"),
    // One that lasts, so that files with tokens and keys can be its alone.
    ("DynamicUser=yes", "User=ratekeeper"),
];

/// Packs everything where Debian has it. The revision is that of the package, of a version of the program.
pub(super) fn pack(
    workspace: &Workspace,
    contents: &Contents,
    revision: u32,
    folder: &Path,
    time: u64,
    effort: PackingEffort,
) -> Result<PathBuf> {
    let architecture =
        run::quiet(Command::new("dpkg").arg("--print-architecture")).context("cannot run dpkg")?;
    let architecture = architecture.trim();
    let version = format!("{}-{revision}", contents.version);
    let staged = folder.join("deb");
    tree(contents, &version, time)?.write(&staged)?;

    let mut meta = FileTree::default();
    meta.text("conffiles", format!("/{CONFIG}\n"));
    for script in SCRIPTS {
        meta.script(script, fs::read(workspace.root.join("deploy/debian").join(script))?);
    }
    let depends = libraries(&contents.program, folder)?;
    meta.text("control", control(&version, architecture, &depends, size(&staged)?));
    let sums = "find . -type f ! -path './DEBIAN/*' -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = run::quiet(Command::new("sh").current_dir(&staged).args(["-euc", sums]))
        .context("cannot run md5sum")?;
    meta.text("md5sums", sums);
    meta.write(&staged.join("DEBIAN"))?;

    let path = folder.join(format!("ratekeeper_{version}_{architecture}.deb"));
    let compression: &[&str] = if effort == PackingEffort::Most { &["-Zxz"] } else { &["-Zgzip", "-z1"] };
    run::succeed(
        Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", time.to_string())
            .args(["--root-owner-group"])
            .args(compression)
            .arg("--build")
            .args([&staged, &path])
            .stdout(Stdio::null()),
    )?;
    Ok(path)
}

fn tree(contents: &Contents, version: &str, time: u64) -> Result<FileTree> {
    let mut tree = FileTree::default();
    tree.program("usr/bin/ratekeeper", &contents.program);
    for (name, text) in &contents.manuals {
        tree.text(format!("usr/share/man/man1/{name}.gz"), packed(text.as_bytes())?);
    }
    tree.text("usr/share/bash-completion/completions/ratekeeper", contents.bash.as_str());
    tree.text("usr/share/zsh/vendor-completions/_ratekeeper", contents.zsh.as_str());
    tree.text("usr/share/fish/vendor_completions.d/ratekeeper.fish", contents.fish.as_str());
    tree.text("usr/lib/systemd/system/ratekeeper.service", unit(&contents.unit)?);
    tree.text(CONFIG, contents.config.as_str());
    let documents = Path::new(DOCUMENTS);
    tree.copy(documents.join("copyright"), contents.root.join("deploy/debian/copyright"));
    tree.text(documents.join("changelog.gz"), packed(contents.changes.as_bytes())?);
    tree.text(documents.join("changelog.Debian.gz"), packed(changes(version, time)?.as_bytes())?);
    tree.text(documents.join("third-party-licences.txt.gz"), packed(contents.licences.as_bytes())?);
    for (path, from) in contents.documents.iter().filter(|(path, _)| path != Path::new("CHANGELOG.md")) {
        let is_example = path.starts_with("deploy");
        let path = match path.strip_prefix("deploy") {
            Ok(path) => documents.join("examples").join(path),
            Err(_) => documents.join(path),
        };
        let is_prose = from.extension().is_some_and(|extension| extension == "md");
        if is_prose && !is_example && fs::metadata(from)?.len() > LARGE {
            tree.text(format!("{}.gz", path.display()), packed(&fs::read(from)?)?);
        } else {
            tree.copy(path, from);
        }
    }
    Ok(tree)
}

/// The unit as the package has it.
fn unit(unit: &str) -> Result<String> {
    let mut unit = unit.to_owned();
    for (from, to) in UNIT {
        if !unit.contains(from) {
            bail!("deploy/ratekeeper.service no longer says `{from}`; see xtask/src/dist/deb.rs");
        }
        unit = unit.replace(from, to);
    }
    Ok(unit)
}

fn control(version: &str, architecture: &str, libraries: &str, kilobytes: u64) -> String {
    format!(
        "Package: ratekeeper\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {}\n\
         Installed-Size: {kilobytes}\nDepends: adduser, {libraries}\nRecommends: ca-certificates\n\
         Section: net\nPriority: optional\nDescription: rate limiter for programs in every language\n \
         A server that says whether a request may pass, over the Redis protocol,\n \
         HTTP, gRPC and MessagePack, and in place of Envoy's rate limit service.\n \
         Limits live in memory, or in a Redis or a PostgreSQL that several servers\n \
         share.\n .\n \
         The package has the command ratekeeper as well, which replays access logs\n \
         against limits, and measures a server.\n",
        maintainer()
    )
}

/// Whoever builds a package maintains it, and says so as Debian's tools have it.
fn maintainer() -> String {
    let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let name = said("DEBFULLNAME").unwrap_or_else(|| "The ratekeeper authors".to_owned());
    match said("DEBEMAIL") {
        Some(address) => format!("{name} <{address}>"),
        None => name,
    }
}

/// What Debian calls the libraries that the program loads: `libc6 (>= 2.34), libgcc-s1 (>= 4.2)`.
fn libraries(program: &Path, folder: &Path) -> Result<String> {
    // It wants to see a source package around it.
    let around = folder.join("shlibs");
    fs::create_dir_all(around.join("debian"))?;
    fs::write(
        around.join("debian/control"),
        "Source: ratekeeper\n\nPackage: ratekeeper\nArchitecture: any\n",
    )?;
    let said =
        run::quiet(Command::new("dpkg-shlibdeps").current_dir(&around).arg("-O").arg("-e").arg(program))
            .context("dpkg-shlibdeps cannot be run (Debian: apt-get install dpkg-dev)")?;
    let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(depends.context("dpkg-shlibdeps names no libraries")?.to_owned())
}

/// How much a tree takes when it is installed.
fn size(folder: &Path) -> Result<u64> {
    let said = run::quiet(
        Command::new("du").args(["--summarize", "--block-size=1K", "--apparent-size"]).arg(folder),
    );
    let said = said.context("cannot run du")?;
    said.split_whitespace().next().and_then(|size| size.parse().ok()).context("du prints no number")
}

/// Debian's own list of changes; ours is beside it.
fn changes(version: &str, time: u64) -> Result<String> {
    let mut date = Command::new("date");
    let date =
        run::quiet(date.env("LC_ALL", "C").args(["--utc", "--rfc-email", "--date", &format!("@{time}")]));
    let date = date.context("cannot run date")?;
    let who = match maintainer() {
        named if named.contains('<') => named,
        // The form wants an address, and this is the one that is nobody's.
        named => format!("{named} <nobody@invalid>"),
    };
    let date = date.trim();
    Ok(format!(
        "ratekeeper ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {who}  {date}\n"
    ))
}

/// As gzip packs it, without name or time.
fn packed(text: &[u8]) -> Result<Vec<u8>> {
    use std::io::Write as _;
    let mut gzip = Command::new("gzip")
        .arg("-9n")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run gzip")?;
    let mut input = gzip.stdin.take().context("gzip has no input")?;
    // Both ways at once: gzip may have more to say than a pipe holds.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(text));
        gzip.wait_with_output()
    })?;
    if !output.status.success() {
        bail!("gzip failed");
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_has_changed_is_noticed() {
        let whole: String = UNIT.iter().map(|(from, _)| *from).collect();
        assert!(unit(&whole).unwrap().contains("User=ratekeeper"));
        let error = unit("[Service]\n").unwrap_err().to_string();
        assert!(error.contains("no longer says"), "{error}");
    }

    #[test]
    fn what_is_packed_can_be_unpacked() {
        let text = "limits\n".repeat(100_000);
        let packed = packed(text.as_bytes()).unwrap();
        assert!(packed.len() < text.len() / 100 && packed.starts_with(&[0x1f, 0x8b]));
    }
}
