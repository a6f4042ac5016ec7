//! The commands of the binary, as a shell runs them.

mod bench;
mod check;
mod check_rls;
mod headers;
mod help;
mod inspect;
mod inspect_redis;
mod ratelimit;
mod simulate;
mod support;
