//! In place of envoyproxy/ratelimit: the cases of its own tests, asked by a stock gRPC client of a real server.
//!
//! The numbers are those of the contract that the cases were written down in; what fails is told by its number. The
//! cases themselves are in `python/`, the rules that they are asked of in `fixtures/`.

mod files;
mod health;
mod stock;
#[cfg(unix)]
mod xds;
