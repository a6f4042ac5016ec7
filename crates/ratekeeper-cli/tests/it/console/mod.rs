//! The console's API, and who may do what: a real server, plain sockets, and what pages from elsewhere would send.

mod commands;
mod keys;
mod pages;
mod rights;
mod stats;
mod store;
mod streams;
mod tokens;
mod web;
mod wires;
