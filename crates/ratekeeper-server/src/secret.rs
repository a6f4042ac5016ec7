//! Tokens that clients must know, and what each of them is good for.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use http::HeaderValue;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A token, compared in a time that does not depend on how much of a guess is right.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// The secret of this text, unless it is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Secret(text.as_bytes().into()))
    }

    /// Whether a guess is right. Only the guess's own length, which its sender knows, shows in the time.
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

    /// Whether it is the same text as another.
    #[must_use]
    pub fn is_same_as(&self, other: &Secret) -> bool {
        self.matches(&other.0)
    }
}

/// The token in a field `authorization`: what comes after `Bearer`.
pub(crate) fn bearer(authorization: Option<&HeaderValue>) -> Option<&[u8]> {
    let (scheme, token) = authorization?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// The tokens of a server.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Needed for everything but the probes, if there is one.
    pub auth: Option<Secret>,
    /// Needed for what only an administrator may do; also passes wherever the first does.
    pub admin: Option<Secret>,
    /// Needed for the metrics, if there is one; passes nowhere else.
    pub metrics: Option<Secret>,
}

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Ask for decisions.
    Client,
    /// The same, and forget many keys at once.
    Admin,
}

impl Tokens {
    /// Whether a client must show a token before it is answered.
    pub fn are_needed(&self) -> bool {
        self.auth.is_some()
    }

    /// Whether there is a token that a client can show, needed or not.
    pub fn can_be_shown(&self) -> bool {
        self.auth.is_some() || self.admin.is_some()
    }

    /// Returns what this token is good for, if anything.
    pub fn role(&self, token: &[u8]) -> Option<Role> {
        // Both are always compared, so that the time does not tell which one a guess comes close to.
        let is_client = self.auth.as_ref().is_some_and(|secret| secret.matches(token));
        let is_admin = self.admin.as_ref().is_some_and(|secret| secret.matches(token));
        match (is_admin, is_client) {
            (true, _) => Some(Role::Admin),
            (false, true) => Some(Role::Client),
            (false, false) => None,
        }
    }

    /// Whether anybody may read the metrics.
    pub fn are_metrics_open(&self) -> bool {
        self.auth.is_none() && self.metrics.is_none()
    }

    /// Whether the bearer of this token may read the metrics.
    pub fn opens_metrics(&self, token: &[u8]) -> bool {
        let is_theirs = self.metrics.as_ref().is_some_and(|secret| secret.matches(token));
        is_theirs | self.role(token).is_some()
    }
}

/// Why a client may not do what only an administrator may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmin {
    /// The server has no admin token, so nobody may.
    TurnedOff,
    /// The client has shown no token that is good for anything.
    Unknown,
    /// The client's token is good for other things only.
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

/// Text of a flag or a file that holds a secret: a token, or a URL with a password. It never shows in what is printed
/// for debugging, nor in the error when it is written wrongly.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl Deref for SecretText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(SecretText(text.to_owned()))
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        SecretText(text.to_owned())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Quoted;

        /// What to say about a value that is no text. What serde would say shows the value.
        const WRONG: &str = "must be text in quotes";

        impl Visitor<'_> for Quoted {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SecretText, E> {
                Ok(SecretText(text.to_owned()))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_i128<E: Error>(self, _: i128) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_u128<E: Error>(self, _: u128) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<SecretText, E> {
                Err(E::custom(WRONG))
            }
        }

        deserializer.deserialize_str(Quoted)
    }
}

/// True if what was typed looks like an address, however wrong, that may hold a password.
pub fn may_hold_password(given: &str) -> bool {
    given.contains('@') || given.contains("://")
}

/// Text with whatever may be the password of a URL taken out of each line: for errors that show what was typed, where
/// a URL may stand that is not even one.
pub fn without_passwords(text: &str) -> String {
    let masked = |line: &str| {
        // A mistyped `redis:/:pw@host` or `redis//:pw@host` has a password too.
        let start = line.find("//").map(|at| at + 2).or_else(|| line.find(":/").map(|at| at + 2));
        let secret = start.and_then(|start| Some((start, line.rfind('@').filter(|end| *end > start)?)));
        match secret {
            Some((start, end)) => format!("{}…{}", &line[..start], &line[end..]),
            None => line.to_owned(),
        }
    };
    text.split('\n').map(masked).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_taken_out_of_what_is_told() {
        for (text, expected) in [
            ("no store at redis://:sesame@host:1", "no store at redis://…@host:1"),
            ("`redis://user:ses@me@host`\nmore", "`redis://…@host`\nmore"),
            ("redis//:my sesame@host", "redis//…@host"),
            ("redis:/:sesame@host", "redis:/…@host"),
            ("plan `gold@eu`: period", "plan `gold@eu`: period"),
            ("redis://host:1", "redis://host:1"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
        assert_eq!(format!("{:?}", SecretText::from("sesame")), "SecretText(…)");
    }

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
