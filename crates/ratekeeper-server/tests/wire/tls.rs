//! Encrypted connections, on every transport.
