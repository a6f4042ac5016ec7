//! The binary, run to its end.

use std::io::Write;
use std::process::Stdio;

pub(crate) use test_support::binary::ratekeeper;
pub(crate) use test_support::folder::Folder;
pub(crate) use test_support::server::Server;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs it with this on standard input.
pub(crate) fn run_with(args: &[&str], input: impl AsRef<[u8]>) -> Ran {
    let mut child =
        ratekeeper(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.as_ref().to_vec());
    // From a thread, because the process may write before it has read all; it may also not want to read all.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs it with nothing on standard input.
pub(crate) fn run(args: &[&str]) -> Ran {
    run_with(args, "")
}

impl Ran {
    /// What it said, if it ended well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The one line that it said about a mistake of usage or input.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (2, ""), "{}", self.err);
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        self.err
    }

    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }
}
