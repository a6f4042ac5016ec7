//! Only benches are here: `cargo bench --manifest-path compare/Cargo.toml --bench engine`.
