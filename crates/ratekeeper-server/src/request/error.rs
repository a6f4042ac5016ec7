//! What is wrong with a request, or why it was not decided.

use std::fmt;

use ratekeeper::keeper::KeeperError;
use ratekeeper::port::AmountError;
use ratekeeper::{KeyError, StoreErrorKind};

use super::field::RequestField;
use crate::secret::{Admin, AdminRight, NotAdmin};

/// Why a request has no answer. Wires translate it: each variant is one status, code or prefix there.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// A field without a default is missing.
    Missing(RequestField),
    /// A field has a wrong value: which, and what would be right.
    Invalid(RequestField, String),
    /// A quota is beyond what the server admits.
    OutOfBounds(RequestField, String),
    /// A quota is a `log`, and the server admits none.
    LogNotAllowed(String),
    /// The server admits no quotas from requests.
    PlansOnly,
    /// Only an administrator may do this.
    NotAdmin(AdminVerb, NotAdmin),
    /// The store cannot find keys by prefix.
    CannotForget(String),
    /// The store has no debts or no holds.
    Unsupported(String),
    /// The keeper has no ruling.
    Keeper(KeeperError),
}

/// What only an administrator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminVerb {
    /// Give a cost back.
    Refund,
    /// Charge a cost, whether it passes or not.
    Debit,
    /// Forget a key.
    Reset,
    /// Forget many keys.
    Forget,
}

impl AdminVerb {
    /// Returns what it is called on most wires.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            AdminVerb::Refund => "refund",
            AdminVerb::Debit => "debit",
            AdminVerb::Reset => "reset",
            AdminVerb::Forget => "forget",
        }
    }

    /// Returns the proof, or the error that says who may.
    ///
    /// # Errors
    ///
    /// The client is no administrator.
    pub(crate) fn by(self, right: AdminRight) -> Result<Admin, RequestError> {
        right.map_err(|refusal| RequestError::NotAdmin(self, refusal))
    }
}

impl RequestError {
    /// Returns the error of a field that must be an integer and is none.
    #[cold]
    pub(crate) fn not_an_integer(field: RequestField) -> Self {
        RequestError::Invalid(field, "must be an integer of 64 bits".to_owned())
    }

    /// Returns the field that is wrong, if it is one.
    pub(crate) fn field(&self) -> Option<RequestField> {
        match self {
            RequestError::Missing(field)
            | RequestError::Invalid(field, _)
            | RequestError::OutOfBounds(field, _) => Some(*field),
            RequestError::LogNotAllowed(_) | RequestError::PlansOnly => Some(RequestField::Quota),
            RequestError::Keeper(KeeperError::Key(_)) => Some(RequestField::Key),
            RequestError::Keeper(KeeperError::Store(error)) => {
                // A store that cannot decide by a quota was asked by mistake.
                (error.kind() == StoreErrorKind::Unsupported).then_some(RequestField::Quota)
            }
            RequestError::Keeper(KeeperError::Lease(_)) => Some(RequestField::Lease),
            RequestError::Keeper(KeeperError::HoldWithoutPlan) => Some(RequestField::Quota),
            RequestError::Keeper(KeeperError::Amounts(AmountError::TakenByHolds { .. })) => {
                Some(RequestField::Plan)
            }
            RequestError::Keeper(KeeperError::Amounts(_)) => Some(RequestField::Costs),
            RequestError::Keeper(_) => Some(RequestField::Plan),
            RequestError::NotAdmin(..) | RequestError::CannotForget(_) | RequestError::Unsupported(_) => None,
        }
    }

    /// Returns the message, `field: value; remedy`, with the name that a wire has for the field.
    #[cold]
    pub(crate) fn spelled(&self, name: impl Fn(RequestField) -> &'static str) -> String {
        match self {
            RequestError::Missing(field) => format!("{}: {}", name(*field), field.if_missing()),
            RequestError::Invalid(field, problem) | RequestError::OutOfBounds(field, problem) => {
                format!("{}: {problem}", name(*field))
            }
            RequestError::LogNotAllowed(problem) => format!("{}: {problem}", name(RequestField::Quota)),
            RequestError::PlansOnly => {
                "this server takes no quotas from requests (plans_only): name a plan instead, by ACQUIRE key plan \
                 (RESP), POST /v1/acquire (HTTP), ratekeeper.v1.RateLimiter/Acquire (gRPC) or cmd 2 (MessagePack)"
                    .to_owned()
            }
            RequestError::NotAdmin(verb, refusal) => format!("{}: {refusal}", verb.name()),
            RequestError::CannotForget(problem) => problem.clone(),
            RequestError::Unsupported(problem) => format!("store: {problem}"),
            RequestError::Keeper(KeeperError::Store(error)) => match self.field() {
                Some(field) => format!("{}: {error}", name(field)),
                None => format!("store: {error}"),
            },
            RequestError::Keeper(error) => error.to_string(),
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled(RequestField::name))
    }
}

impl std::error::Error for RequestError {}

impl From<KeyError> for RequestError {
    #[cold]
    fn from(error: KeyError) -> Self {
        RequestError::Keeper(KeeperError::Key(error))
    }
}

impl From<KeeperError> for RequestError {
    #[cold]
    fn from(error: KeeperError) -> Self {
        RequestError::Keeper(error)
    }
}
