//! Tokens that clients must show, and the role that each of them gives.

use std::fmt;

use http::HeaderValue;

/// A token, compared in a time that does not depend on how much of a guess is right.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Returns the secret of this text; `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Secret(text.as_bytes().into()))
    }

    /// Returns true if a guess is right. The time shows nothing but the length of the guess, which its sender knows.
    #[must_use]
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut difference = u8::from(guess.len() != self.0.len());
        for (index, byte) in guess.iter().enumerate() {
            difference |= byte ^ self.0[index % self.0.len()];
            // Keeps the compiler from leaving early once the answer is known.
            difference = std::hint::black_box(difference);
        }
        difference == 0
    }

    /// Returns true if it is the same text as another.
    #[must_use]
    pub fn is_same_as(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

/// Returns the token in a field `authorization`: what comes after `Bearer`.
pub(crate) fn bearer(authorization: Option<&HeaderValue>) -> Option<&[u8]> {
    let (scheme, token) = authorization?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// The tokens of a server.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Required for everything but the probes, if set.
    pub auth: Option<Secret>,
    /// Required for what only an administrator may do; also valid wherever the first is.
    pub admin: Option<Secret>,
    /// Required for the metrics, if set; valid nowhere else.
    pub metrics: Option<Secret>,
}

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Ask for decisions.
    Client,
    /// Ask for decisions, and forget many keys at once.
    Admin,
}

impl Tokens {
    /// Returns true if a client must show a token before it is answered.
    pub fn are_needed(&self) -> bool {
        self.auth.is_some()
    }

    /// Returns true if there is a token that a client can show, required or not.
    pub(crate) fn can_be_shown(&self) -> bool {
        self.auth.is_some() || self.admin.is_some()
    }

    /// Returns the role of this token; `None` if it is not valid.
    pub(crate) fn role(&self, token: &[u8]) -> Option<Role> {
        // Both are always compared, so that the time does not tell which one a guess comes close to.
        let is_client = self.auth.as_ref().is_some_and(|secret| secret.matches(token));
        let is_admin = self.admin.as_ref().is_some_and(|secret| secret.matches(token));
        match (is_admin, is_client) {
            (true, _) => Some(Role::Admin),
            (false, true) => Some(Role::Client),
            (false, false) => None,
        }
    }

    /// Returns true if anybody may read the metrics.
    pub(crate) fn are_metrics_open(&self) -> bool {
        self.auth.is_none() && self.metrics.is_none()
    }

    /// Returns true if the bearer of this token may read the metrics.
    pub(crate) fn opens_metrics(&self, token: &[u8]) -> bool {
        let is_theirs = self.metrics.as_ref().is_some_and(|secret| secret.matches(token));
        is_theirs | self.role(token).is_some()
    }
}

/// Why a client may not do what only an administrator may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmin {
    /// The server has no admin token, so nobody may.
    TurnedOff,
    /// The client has shown no valid token.
    Unknown,
    /// The client's token is valid, and not the administrator's.
    Forbidden,
}

impl NotAdmin {
    /// Checks that a client in this role is an administrator.
    pub(crate) fn check(tokens: &Tokens, role: Option<Role>) -> Result<Admin, NotAdmin> {
        match role {
            _ if tokens.admin.is_none() => Err(NotAdmin::TurnedOff),
            Some(Role::Admin) => Ok(Admin(())),
            Some(Role::Client) => Err(NotAdmin::Forbidden),
            None => Err(NotAdmin::Unknown),
        }
    }
}

/// Proof that a request comes from an administrator; only [`NotAdmin::check`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admin(());

#[cfg(test)]
impl Admin {
    pub(crate) fn for_test() -> Self {
        Admin(())
    }
}

impl fmt::Display for NotAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotAdmin::TurnedOff => {
                "turned off: start the server with --admin-token-file (or --admin-token) to let its bearer do this"
            }
            NotAdmin::Unknown | NotAdmin::Forbidden => "needs the admin token (--admin-token of the server)",
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_matches() {
        let secret = Secret::new("sesame").unwrap();
        assert!(secret.matches(b"sesame"));
        for guess in ["", "s", "sesam", "sesamE", "sesamesesame", "sesame "] {
            assert!(!secret.matches(guess.as_bytes()), "{guess}");
        }
        assert!(Secret::new("").is_none());
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_token_is_borne_by_its_field() {
        for (field, expected) in [
            ("Bearer sesame", Some(&b"sesame"[..])),
            ("bearer sesame", Some(b"sesame")),
            ("Bearer ", Some(b"")),
            ("Bearer", None),
            ("Basic sesame", None),
            ("sesame", None),
        ] {
            assert_eq!(bearer(Some(&HeaderValue::from_static(field))), expected, "{field}");
        }
        assert_eq!(bearer(None), None);
    }

    #[test]
    fn each_token_is_good_for_its_own() {
        let (auth, admin, metrics) = (Secret::new("a"), Secret::new("b"), Secret::new("c"));
        let all = Tokens { auth: auth.clone(), admin: admin.clone(), metrics: metrics.clone() };
        for (token, role, reads) in [
            ("a", Some(Role::Client), true),
            ("b", Some(Role::Admin), true),
            ("c", None, true),
            ("d", None, false),
        ] {
            assert_eq!(all.role(token.as_bytes()), role, "{token}");
            assert_eq!(all.opens_metrics(token.as_bytes()), reads, "{token}");
        }
        assert!(!all.are_metrics_open());
        let open = Tokens { admin, ..Tokens::default() };
        assert!(!open.are_needed() && open.are_metrics_open());
        assert!(!Tokens { metrics, ..Tokens::default() }.are_metrics_open());
        assert_eq!(
            NotAdmin::check(&Tokens { auth, ..Tokens::default() }, Some(Role::Client)),
            Err(NotAdmin::TurnedOff)
        );
        assert_eq!(NotAdmin::check(&open, None), Err(NotAdmin::Unknown));
        assert_eq!(NotAdmin::check(&all, Some(Role::Client)), Err(NotAdmin::Forbidden));
        assert_eq!(NotAdmin::check(&all, Some(Role::Admin)), Ok(Admin::for_test()));
    }
}
