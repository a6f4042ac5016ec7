//! What the program can do.

/// Every command, by its name. Servers come first.
pub(crate) const COMMANDS: [&str; 10] = [
    "serve",
    "ratelimit",
    "check",
    "health",
    "inspect",
    "headers",
    "simulate",
    "bench",
    "completions",
    "man",
];
