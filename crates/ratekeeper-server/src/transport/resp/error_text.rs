//! Errors to the text of an error reply.

use ratekeeper::keeper::KeeperError;

use super::reply::escaped;
use crate::request::{RequestError, RequestField};
use crate::secret::NotAdmin;

/// Returns the text of the reply to a command of this name that went wrong; its first word is the kind of the error.
#[cold]
pub(super) fn error_text(command: &str, error: &RequestError) -> String {
    match error {
        RequestError::Missing(RequestField::Plan) => "ERR invalid plan: none; name at least one".to_owned(),
        RequestError::Missing(RequestField::Prefix) => {
            "ERR invalid prefix: empty; every key starts with it: send FORGET ALL KEYS if that is meant"
                .to_owned()
        }
        RequestError::Missing(RequestField::Id) => {
            "ERR invalid id: empty; send the id that the hold was answered with".to_owned()
        }
        // Arguments have positions and no names, so there are too few of them.
        RequestError::Missing(field) => {
            let (name, problem) = (field.name(), field.if_missing().trim_start_matches("missing, and "));
            format!("ERR wrong number of arguments for '{command}' command: no {name}, and {problem}")
        }
        RequestError::PlansOnly => format!("ERR {error}"),
        RequestError::NotAdmin(verb, refusal) => {
            let how = if *refusal == NotAdmin::Remote { "" } else { "; send AUTH with it first" };
            format!("NOPERM {}: {refusal}{how}", verb.name().to_ascii_uppercase())
        }
        RequestError::CannotForget(problem) | RequestError::Unsupported(problem) => {
            format!("ERR store: {problem}")
        }
        RequestError::Keeper(KeeperError::UnknownPlan { name }) => {
            format!("ERR unknown plan '{}'", escaped(name.as_bytes()))
        }
        RequestError::Keeper(KeeperError::Store(error)) => format!("ERR store: {error}"),
        _ => format!("ERR invalid {}", error.spelled(name)),
    }
}

/// Returns what a field is called on this wire.
fn name(field: RequestField) -> &'static str {
    match field {
        RequestField::Lease => "lease",
        other => other.name(),
    }
}
