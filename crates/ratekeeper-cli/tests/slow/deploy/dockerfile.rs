//! `deploy/Dockerfile`: what is in the image, put together here as there.

use std::fs;
use std::process::Command;

use crate::deploy::root;
use test_support::binary::without_settings;
use test_support::folder::Folder;
use test_support::server::Server;

/// The Dockerfile, each instruction on one line.
fn instructions() -> Vec<String> {
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    lines.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// What cannot be built without a container engine can be read by who knows how Dockerfiles go wrong.
#[test]
fn hadolint_has_nothing_to_say() {
    let Some(hadolint) = std::env::var_os("RATEKEEPER_HADOLINT") else {
        eprintln!(
            "not run: RATEKEEPER_HADOLINT is not set; `cargo xtask test` fetches a hadolint, or says why it cannot"
        );
        return;
    };
    let output = Command::new(hadolint).arg(root().join("deploy/Dockerfile")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What the image is built with is what the workspace asks for, and what is locked.
#[test]
fn the_image_is_built_as_the_workspace_says() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    let instructions = instructions();
    let first = instructions.iter().find(|line| line.starts_with("FROM ")).unwrap();
    assert_eq!(*first, format!("FROM rust:{rust}-alpine AS build"));
    let build = instructions.iter().find(|line| line.starts_with("RUN cargo build ")).unwrap();
    assert!(build.contains(" --locked "), "{build}");
    // Nobody's rights, a way to tell whether it is well, and signals that reach the server itself.
    let last = |name: &str| instructions.iter().rfind(|line| line.starts_with(name)).unwrap();
    assert_eq!(last("USER "), "USER 65534:65534");
    assert!(last("HEALTHCHECK ").contains(r#"CMD ["/ratekeeper", "health"]"#));
    assert_eq!(last("ENTRYPOINT "), r#"ENTRYPOINT ["/ratekeeper"]"#);
}

/// Envoy Gateway starts `/bin/ratelimit`, whatever the image; and TLS is trusted by the certificates in the image.
#[test]
fn the_image_has_the_name_of_the_go_service_and_certificates() {
    let instructions = instructions();
    assert!(
        instructions.iter().any(|line| line.starts_with("RUN apk add ") && line.contains(" ca-certificates"))
    );
    let last = instructions.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert_eq!(instructions[last], "FROM scratch");
    assert_eq!(instructions[last + 1], "COPY --from=build /image /");
    let copies = |line: &&String| line.starts_with("COPY ") || line.starts_with("ADD ");
    assert_eq!(instructions[last..].iter().filter(copies).count(), 1, "all of it is in that folder");

    let folder = Folder::new("container");
    let certificates = folder.write("authorities.pem", "those of the build stage");
    let assembled = instructions.iter().find_map(|line| line.strip_prefix("RUN mkdir -p /image/")).unwrap();
    let script = format!("mkdir -p /image/{assembled}")
        .replace("/source/target/release/ratekeeper", test_support::binary::path())
        .replace(" /etc/ssl/certs/ca-certificates.crt", &format!(" {certificates}"))
        .replace("/image", &folder.path("image"));
    let output = Command::new("sh").args(["-euc", &script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));

    // Where OpenSSL, and what follows it, looks first.
    let copied = fs::read_to_string(folder.path("image/etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert_eq!(copied, "those of the build stage");
    fs::create_dir_all(folder.path("rules/ratelimit/config")).unwrap();
    let mut command = Command::new(folder.path("image/bin/ratelimit"));
    without_settings(&mut command).env("RUNTIME_ROOT", folder.path("rules"));
    command.env("RUNTIME_SUBDIRECTORY", "ratelimit");
    for (host, port) in [("HOST", "PORT"), ("GRPC_HOST", "GRPC_PORT"), ("DEBUG_HOST", "DEBUG_PORT")] {
        command.env(host, "127.0.0.1").env(port, "0");
    }
    let server = Server::spawn(&mut command);
    assert_ne!(server.address("debug").port(), 0, "it serves as the Go service does");
}
