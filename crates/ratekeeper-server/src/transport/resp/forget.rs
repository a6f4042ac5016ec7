//! `FORGET`: every key that starts with some bytes, for the administrator.

use super::context::RespTransport;
use super::error_text::error_text;
use super::reply::RespReply;
use super::throttle::saturated;
use crate::request::{AdminVerb, ForgetFields, RequestError};
use crate::responder::WireAnswer;
use crate::secret::AdminRight;

/// The words that mean every key. Two of them, because a prefix is one word: nobody says this by mistake.
const EVERYTHING: [&[u8]; 2] = [b"all", b"keys"];

/// Answers the arguments after the command's name: `prefix`, or `ALL KEYS`.
pub(super) async fn answer(
    resp: &RespTransport,
    right: AdminRight,
    args: &[&[u8]],
    reply: &mut RespReply<'_>,
) {
    let wrong = "ERR wrong number of arguments for 'forget' command: send one prefix, or ALL KEYS";
    let result = match (AdminVerb::Forget.by(right), fields(args)) {
        (Err(error), _) => Err(error_text("forget", &error)),
        (Ok(_), None) => Err(wrong.to_owned()),
        (Ok(admin), Some(fields)) => {
            let asked = async { resp.responder.answer(&fields.check(admin)?).await };
            asked.await.map_err(|error: RequestError| error_text("forget", &error))
        }
    };
    match result {
        Ok(WireAnswer::Forgotten(forgotten)) => reply.integer(saturated(forgotten)),
        Ok(_) => {}
        Err(text) => {
            resp.responder.metrics().failed();
            reply.error(&text);
        }
    }
}

fn fields<'a>(args: &[&'a [u8]]) -> Option<ForgetFields<'a>> {
    match args {
        [prefix] => Some(ForgetFields { prefix: Some(prefix), all: false }),
        [first, second]
            if first.eq_ignore_ascii_case(EVERYTHING[0]) && second.eq_ignore_ascii_case(EVERYTHING[1]) =>
        {
            Some(ForgetFields { prefix: None, all: true })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_said_in_two_words() {
        let said = |args: &[&'static [u8]]| fields(args).map(|fields| (fields.prefix, fields.all));
        assert_eq!(said(&[b"j"]), Some((Some(&b"j"[..]), false)));
        assert_eq!(said(&[b"ALL"]), Some((Some(&b"ALL"[..]), false)), "the keys that start so");
        assert_eq!(said(&[b"all", b"Keys"]), Some((None, true)));
        let wrong: [&[&[u8]]; 3] = [&[], &[b"a", b"b"], &[b"*", b"all", b"keys"]];
        for wrong in wrong {
            assert!(fields(wrong).is_none());
        }
    }
}
