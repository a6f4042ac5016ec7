//! Files of tokens that are looked at again: a token is exchanged without a restart.

use std::io;

use crate::secret::{LiveTokens, Tokens};
use crate::token_files::TokenFiles;
use crate::watch::{EventKind, EventLevel, EventLog};
use crate::watcher::{FileLook, FileWatcher};

/// Has tokens exchanged when their files change: when a file says the same at two looks in a row, because one that is being
/// written may hold anything. A file that cannot be used changes nothing, and is logged.
///
/// # Errors
///
/// A thread cannot be started.
pub(crate) fn watch_tokens(
    files: TokenFiles,
    tokens: Tokens,
    live: LiveTokens,
    events: EventLog,
) -> io::Result<FileWatcher> {
    let mut watched = WatchedTokens { files, live, events, settled: Ok(tokens), fresh: None };
    FileWatcher::start("tokens", move |look| watched.look(look))
}

type FoundTokens = Result<Tokens, String>;

/// Files under watch.
struct WatchedTokens {
    files: TokenFiles,
    live: LiveTokens,
    events: EventLog,
    /// What was last acted upon.
    settled: FoundTokens,
    /// What was seen once.
    fresh: Option<FoundTokens>,
}

impl WatchedTokens {
    fn look(&mut self, look: FileLook) {
        // What is not in a file stays as it is, and so do all if a file cannot be used.
        let base = self.live.tokens();
        let found = self.files.read(base);
        if is_same(&found, &self.settled) {
            self.fresh = None;
        } else if look == FileLook::Now || self.fresh.as_ref().is_some_and(|fresh| is_same(fresh, &found)) {
            self.fresh = None;
            self.act_upon(&found);
            self.settled = found;
        } else {
            self.fresh = Some(found);
        }
    }

    fn act_upon(&self, found: &FoundTokens) {
        match found {
            // A file that was away and is back says what is in force.
            Ok(tokens) if !self.live.replace(tokens.clone()) => {
                tracing::info!("tokens: can be read again, and are the same");
                let text = "tokens can be read again, and are the same";
                self.events.note(EventKind::Tokens, EventLevel::Info, text);
            }
            Ok(_) => {
                tracing::info!("tokens: read again and exchanged; the old ones are no longer valid");
                let text = "tokens were exchanged; the old ones are no longer valid";
                self.events.note(EventKind::Tokens, EventLevel::Info, text);
            }
            Err(problem) => {
                tracing::error!(problem, "tokens: not exchanged, the old ones stay");
                let text = format!("tokens were not exchanged, the old ones stay: {problem}");
                self.events.note(EventKind::Tokens, EventLevel::Error, text);
            }
        }
    }
}

fn is_same(one: &FoundTokens, other: &FoundTokens) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.are_same_as(other),
        (Err(one), Err(other)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_token_is_exchanged_when_its_file_has_settled() {
        let path = std::env::temp_dir().join(format!("ratekeeper-token-{}", std::process::id()));
        fs::write(&path, "old\n").unwrap();
        let files = TokenFiles { admin: Some(path.clone()), ..TokenFiles::default() };
        let auth = Tokens { auth: Secret::new("ask"), ..Tokens::default() };
        let tokens = files.read(auth).unwrap();
        let (live, events) = (LiveTokens::new(tokens.clone()), EventLog::default());
        let mut watched = WatchedTokens {
            files,
            live: live.clone(),
            events: events.clone(),
            settled: Ok(tokens),
            fresh: None,
        };
        let twice = |watched: &mut WatchedTokens| {
            watched.look(FileLook::IfChanged);
            watched.look(FileLook::IfChanged);
        };
        fs::write(&path, "ne").unwrap();
        watched.look(FileLook::IfChanged);
        fs::write(&path, "new\n").unwrap();
        watched.look(FileLook::IfChanged);
        assert!(live.role(b"old").is_some() && live.role(b"ne").is_none(), "it may still be written");
        watched.look(FileLook::IfChanged);
        assert!(live.role(b"old").is_none() && live.role(b"new").is_some() && live.role(b"ask").is_some());
        for wrong in ["", "a\nb", "ask"] {
            fs::write(&path, wrong).unwrap();
            twice(&mut watched);
            twice(&mut watched);
            assert!(live.role(b"new").is_some(), "{wrong:?}");
        }
        fs::remove_file(&path).unwrap();
        twice(&mut watched);
        assert!(live.role(b"new").is_some());
        let pass = live.pass();
        fs::write(&path, "new\n").unwrap();
        twice(&mut watched);
        assert!(pass.is_valid(), "it was away, and is back as it was");
        fs::write(&path, "last").unwrap();
        watched.look(FileLook::Now);
        assert!(live.role(b"last").is_some(), "at once if somebody asks for it");
        let levels: Vec<_> = events.after(0).iter().map(|event| event.level).collect();
        use EventLevel::{Error, Info};
        assert_eq!(levels, [Info, Error, Error, Error, Error, Info, Info], "each is told once");
        fs::remove_file(&path).unwrap();
    }
}
