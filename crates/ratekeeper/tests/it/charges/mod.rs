//! Charges of several keys that are judged together, beyond what every store is examined for: the law against the reference
//! model, threads, room, and the keeper's part.

mod keeper;
mod law;
mod room;
mod threads;
