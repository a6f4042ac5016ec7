//! The scripts: how they are written, and the calls that run them.
//!
//! ```text
//! call       the keys and arguments of one call     generator  the script of a shape
//! source     a script, by its text and its SHA-1    head       what stands before its rules
//! library    every script, written on first use     ascii      how it reads and writes strings
//! shape      what scripts differ by                 binary     how it reads and writes hashes
//! verb       what a script is asked to do           writer     what those two share
//! kind       what a script does with a quota        section    the texts of the algorithms
//! held       what a script does about holds         judge      charges that are judged together
//!                                                   notation   64 bits in a language of doubles
//! ```

mod ascii;
mod binary;
mod call;
mod generator;
mod head;
mod held;
mod judge;
mod kind;
mod library;
mod notation;
mod section;
mod shape;
mod source;
mod verb;
mod writer;

pub(crate) use call::ScriptCall;
pub(crate) use head::ScriptTime;
pub(crate) use judge::{JudgedAction, JudgedShare, number_of_force, number_of_whole};
pub(crate) use kind::{RuleKind, RuleNumber};
pub(crate) use library::ScriptLibrary;
pub(crate) use shape::ScriptShape;
pub(crate) use source::Script;
pub(crate) use verb::ScriptVerb;
