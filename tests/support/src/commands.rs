//! The commands of the program.

/// The names of all commands, servers first.
pub const COMMANDS: [&str; 12] = [
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
