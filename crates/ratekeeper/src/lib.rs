//! Rate limiting done right, once.
