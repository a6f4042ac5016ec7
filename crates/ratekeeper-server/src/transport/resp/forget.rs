//! `FORGET`: every key that starts with some bytes, for the administrator.

use super::Resp;
use super::reply::Reply;
use crate::secret::{NotAdmin, Role};

/// The words that mean every key there is. Two of them: a prefix is one word, so nobody says this by mistake.
const EVERYTHING: [&[u8]; 2] = [b"all", b"keys"];

/// Answers the arguments after the command's name: `prefix`, or `ALL KEYS`.
pub(super) async fn answer(resp: &Resp, role: Option<Role>, args: &[&[u8]], reply: &mut Reply<'_>) {
    if let Err(refusal) = NotAdmin::check(&resp.tokens, role) {
        resp.meter.failed();
        let how = if refusal == NotAdmin::TurnedOff { "" } else { "; send AUTH with it first" };
        return reply.error(&format!("NOPERM FORGET: {refusal}{how}"));
    }
    let result = match prefix(args) {
        Ok(prefix) => resp.engine.forget(prefix).await.map_err(|error| format!("store: {error}")),
        Err(message) => Err(message.to_owned()),
    };
    match result {
        Ok(forgotten) => reply.integer(i64::try_from(forgotten).unwrap_or(i64::MAX)),
        Err(message) => {
            resp.meter.failed();
            reply.error(&format!("ERR {message}"));
        }
    }
}

fn prefix<'a>(args: &[&'a [u8]]) -> Result<&'a [u8], &'static str> {
    match args {
        [b""] => {
            Err("invalid prefix: empty; every key starts with it: send FORGET ALL KEYS if that is meant")
        }
        [prefix] => Ok(prefix),
        [first, second]
            if first.eq_ignore_ascii_case(EVERYTHING[0]) && second.eq_ignore_ascii_case(EVERYTHING[1]) =>
        {
            Ok(b"")
        }
        _ => Err("wrong number of arguments for 'forget' command: send one prefix, or ALL KEYS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_never_meant_by_mistake() {
        assert_eq!(prefix(&[b"j"]), Ok(&b"j"[..]));
        assert_eq!(prefix(&[b"ALL"]), Ok(&b"ALL"[..]), "the keys that start so");
        assert_eq!(prefix(&[b"all", b"Keys"]), Ok(&b""[..]));
        assert!(prefix(&[b""]).unwrap_err().contains("ALL KEYS"));
        assert!(
            prefix(&[]).is_err()
                && prefix(&[b"a", b"b"]).is_err()
                && prefix(&[b"*", b"all", b"keys"]).is_err()
        );
    }
}
