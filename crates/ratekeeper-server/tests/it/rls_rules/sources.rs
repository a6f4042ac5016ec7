//! Where files lie, what they are called, and when they have changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ratekeeper_server::rls::{RlsFileNames, RlsSettings, SourceTexts, parse_sources, read_sources};

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ratekeeper-rls-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, names: &RlsFileNames) -> SourceTexts {
        read_sources(std::slice::from_ref(&self.0), names)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(texts: &SourceTexts) -> Vec<&str> {
    texts.names().collect()
}

#[test]
fn every_file_below_is_read_but_those_with_a_dot() {
    let folder = Folder::new("below");
    for name in ["b.yaml", "a.yml", "sub/c", ".hidden.yaml", "..data/d.yaml", "sub/.git/e.yaml"] {
        folder.write(name, format!("domain: {}\n", name.replace(['/', '.'], "-")));
    }
    // As Kubernetes mounts a ConfigMap: files are links into a folder with a leading dot.
    symlink(Path::new("..data/d.yaml"), folder.0.join("d.yaml")).unwrap();
    let dotted = RlsFileNames::Dotted(folder.0.parent().unwrap().to_owned());
    let above = folder.0.file_name().unwrap().to_str().unwrap();
    let expected = ["a.yml", "b.yaml", "d.yaml", "sub.c"].map(|name| format!("{above}.{name}"));
    assert_eq!(names(&folder.read(&dotted)), expected);
    let texts = folder.read(&RlsFileNames::Paths);
    assert_eq!(names(&texts)[3], folder.0.join("sub/c").display().to_string());
    let (config, _) = parse_sources(&texts, &RlsSettings::default()).unwrap();
    assert_eq!(config.domains(), ["--data-d-yaml", "a-yml", "b-yaml", "sub-c"]);
}

#[test]
fn mistakes_name_the_file_as_it_was_given() {
    let folder = Folder::new("names");
    folder.write("sub/a.yaml", "descriptors:\n");
    folder.write("b.yaml", b"domain: d\n# \xff\n");
    let told = |names: &RlsFileNames| {
        let refusal = parse_sources(&folder.read(names), &RlsSettings::default()).unwrap_err();
        refusal.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&RlsFileNames::Dotted(folder.0.clone())),
        [
            "b.yaml:2: error loading config file: not UTF-8",
            "sub.a.yaml:1: config file cannot have empty domain"
        ]
    );
    let path = |name| folder.0.join(name).display().to_string();
    assert_eq!(
        told(&RlsFileNames::Paths)[1],
        format!("{}:1: config file cannot have empty domain", path("sub/a.yaml"))
    );
    let missing = read_sources(&[PathBuf::from("no/such/file.yaml")], &RlsFileNames::Paths);
    let refusal = parse_sources(&missing, &RlsSettings::default()).unwrap_err();
    assert!(
        refusal.to_string().starts_with("no/such/file.yaml: error loading config file: cannot be read: "),
        "{refusal}"
    );
}

#[test]
fn a_file_that_is_too_large_and_folders_in_circles_are_refused() {
    let folder = Folder::new("bounds");
    folder.write("large.yaml", format!("domain: d\n{}", "#".repeat(16 * 1024 * 1024)));
    folder.write("sub/a.yaml", "domain: a\n");
    symlink(Path::new("."), folder.0.join("sub/circle")).unwrap();
    let refusal = parse_sources(&folder.read(&RlsFileNames::Paths), &RlsSettings::default()).unwrap_err();
    let told: Vec<&str> = refusal.mistakes.iter().map(|mistake| mistake.message.as_str()).collect();
    assert!(told.contains(&"error loading config file: larger than 16 MiB"), "{told:?}");
    assert!(
        told.contains(&"error loading config file: folders are nested deeper than 16 levels"),
        "{told:?}"
    );
    assert!(told.contains(&"duplicate domain 'a' in config file"), "the circle is there: {told:?}");
}

/// To pass over it would take its limits away, and nobody would hear of it.
#[test]
fn a_link_that_leads_nowhere_refuses_the_set() {
    for target in ["gone.yaml", "link.yaml"] {
        let folder = Folder::new("links");
        folder.write("a.yaml", "domain: a\n");
        symlink(Path::new(target), folder.0.join("link.yaml")).unwrap();
        let texts = folder.read(&RlsFileNames::Dotted(folder.0.clone()));
        let refusal = parse_sources(&texts, &RlsSettings::default()).unwrap_err().to_string();
        assert!(refusal.starts_with("link.yaml: error loading config file: cannot be read: "), "{refusal}");
    }
}

#[test]
fn contents_are_told_apart_by_what_is_in_them() {
    let folder = Folder::new("contents");
    folder.write("a.yaml", "domain: a\n");
    let first = folder.read(&RlsFileNames::Paths);
    folder.write("a.yaml", "domain: a\n");
    let same = folder.read(&RlsFileNames::Paths);
    assert_eq!((&first, first.fingerprint()), (&same, same.fingerprint()));
    folder.write("a.yaml", "domain: b\n");
    let other = folder.read(&RlsFileNames::Paths);
    assert_ne!(first.fingerprint(), other.fingerprint());
    assert_ne!(first, other);
    let shifted = SourceTexts::from_texts([("a", "bc"), ("d", "")]).fingerprint();
    assert_ne!(shifted, SourceTexts::from_texts([("ab", "c"), ("d", "")]).fingerprint());
    let empty = Folder::new("empty").read(&RlsFileNames::Paths);
    assert!(empty.is_empty() && parse_sources(&empty, &RlsSettings::default()).unwrap().0.is_empty());
}
