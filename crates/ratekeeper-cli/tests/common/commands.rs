//! What the program can do.

/// Every command, by its name. Servers come first.
pub(crate) const COMMANDS: [&str; 12] = [
    "serve",
    "ratelimit",
    "check",
    "health",
    "inspect",
    "headers",
    "simulate",
    "bench",
    "top",
    "key",
    "completions",
    "man",
];
