//! Tokens that clients must show, and the role that each of them gives.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
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

    /// Returns the text, to be sent to a server.
    pub fn expose(&self) -> &[u8] {
        &self.0
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
    /// Required for what only an administrator may do; also valid wherever the first is. Without it that can be done from
    /// this machine only.
    pub admin: Option<Secret>,
    /// Required for the metrics, if set; valid nowhere else.
    pub metrics: Option<Secret>,
    /// Whether anybody may read the metrics, also where a token is required for everything else.
    pub open_metrics: bool,
}

/// What the bearer of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Ask for decisions.
    Client,
    /// Ask for decisions, and change what keys have used.
    Admin,
}

/// The role of a token that was shown, and when it was valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownRole {
    /// The role.
    pub(crate) role: Role,
    /// How often the tokens had been exchanged.
    generation: u64,
}

impl Tokens {
    /// Returns true if a client must show a token before it is answered.
    pub fn are_needed(&self) -> bool {
        self.auth.is_some()
    }

    /// Returns true if there is a token that a client can show, required or not.
    fn can_be_shown(&self) -> bool {
        self.auth.is_some() || self.admin.is_some()
    }

    /// Returns the role of this token; `None` if it is not valid.
    fn role(&self, token: &[u8]) -> Option<Role> {
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
    fn are_metrics_open(&self) -> bool {
        self.open_metrics || self.auth.is_none() && self.metrics.is_none()
    }

    /// Returns true if the bearer of this token may read the metrics.
    fn opens_metrics(&self, token: &[u8]) -> bool {
        let is_theirs = self.metrics.as_ref().is_some_and(|secret| secret.matches(token));
        is_theirs | self.role(token).is_some()
    }

    /// Returns true if the others are the same, each for each.
    pub(crate) fn are_same_as(&self, other: &Tokens) -> bool {
        let pairs = [(&self.auth, &other.auth), (&self.admin, &other.admin), (&self.metrics, &other.metrics)];
        self.open_metrics == other.open_metrics
            && pairs.into_iter().all(|(one, other)| is_same(one.as_ref(), other.as_ref()))
    }

    /// Returns the two tokens that are the same, if any are: by name, and with what would follow.
    pub fn clash(&self) -> Option<TokenClash> {
        let pairs = [
            (&self.admin, "admin", &self.auth, "auth", "every client could forget every key"),
            (&self.metrics, "metrics", &self.auth, "auth", "a reader of metrics could send requests"),
            (&self.metrics, "metrics", &self.admin, "admin", "a reader of metrics could forget keys"),
        ];
        let is_shared = |one: &Option<Secret>, other: &Option<Secret>| {
            one.is_some() && is_same(one.as_ref(), other.as_ref())
        };
        let found = pairs.into_iter().find(|(one, _, other, ..)| is_shared(one, other));
        found.map(|(_, token, _, other, consequence)| TokenClash { token, other, consequence })
    }
}

fn is_same(one: Option<&Secret>, other: Option<&Secret>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same_as(other),
        _ => false,
    }
}

/// Two tokens that are the same and must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenClash {
    /// One of them: `admin` or `metrics`.
    pub token: &'static str,
    other: &'static str,
    consequence: &'static str,
}

impl fmt::Display for TokenClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TokenClash { other, consequence, .. } = self;
        write!(f, "the same as the {other} token, so {consequence}; choose another")
    }
}

/// The tokens in force. They are exchanged as a whole, while requests go on. Clones are handles of the same tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveTokens(Arc<ArcSwap<TokenGeneration>>);

#[derive(Debug, Default)]
struct TokenGeneration {
    tokens: Tokens,
    /// How often tokens were exchanged.
    number: u64,
    /// How often the admin token was.
    admin: u64,
}

/// What was let in by the tokens of some time, and is to be ended when they are exchanged.
#[derive(Debug)]
pub(crate) struct TokenPass {
    tokens: LiveTokens,
    number: u64,
}

impl TokenPass {
    /// Returns true if the tokens are still the same.
    pub(crate) fn is_valid(&self) -> bool {
        self.tokens.0.load().number == self.number
    }
}

impl LiveTokens {
    /// Returns these tokens, in force.
    pub(crate) fn new(tokens: Tokens) -> Self {
        LiveTokens(Arc::new(ArcSwap::from_pointee(TokenGeneration { tokens, number: 0, admin: 0 })))
    }

    /// Puts other tokens in force. Connections that have shown one of the old ones may go on to ask; what only an
    /// administrator may do needs the new one, if that is another. Returns false if they are the same, and all stays as it is.
    pub(crate) fn replace(&self, tokens: Tokens) -> bool {
        let live = self.0.load();
        if live.tokens.are_same_as(&tokens) {
            return false;
        }
        let admin = live.admin + u64::from(!is_same(live.tokens.admin.as_ref(), tokens.admin.as_ref()));
        self.0.store(Arc::new(TokenGeneration { tokens, number: live.number + 1, admin }));
        true
    }

    /// Returns a pass that is valid until tokens are exchanged.
    pub(crate) fn pass(&self) -> TokenPass {
        TokenPass { tokens: self.clone(), number: self.0.load().number }
    }

    /// Returns the tokens in force.
    pub(crate) fn tokens(&self) -> Tokens {
        self.0.load().tokens.clone()
    }

    /// Returns true if a client must show a token before it is answered.
    pub(crate) fn are_needed(&self) -> bool {
        self.0.load().tokens.are_needed()
    }

    /// Returns true if there is a token that a client can show, required or not.
    pub(crate) fn can_be_shown(&self) -> bool {
        self.0.load().tokens.can_be_shown()
    }

    /// Returns the role of this token; `None` if it is not valid.
    pub(crate) fn role(&self, token: &[u8]) -> Option<ShownRole> {
        let live = self.0.load();
        live.tokens.role(token).map(|role| ShownRole { role, generation: live.admin })
    }

    /// Returns true if there is a token at all.
    pub(crate) fn is_any(&self) -> bool {
        let live = self.0.load();
        live.tokens.can_be_shown() || live.tokens.metrics.is_some()
    }

    /// Returns true if anybody may read the metrics.
    pub(crate) fn are_metrics_open(&self) -> bool {
        self.0.load().tokens.are_metrics_open()
    }

    /// Returns true if the bearer of this token may read the metrics.
    pub(crate) fn opens_metrics(&self, token: &[u8]) -> bool {
        self.0.load().tokens.opens_metrics(token)
    }

    /// Returns whether a client that has shown a token of this role is an administrator. Without an admin token those on
    /// this machine are.
    pub(crate) fn admin(&self, shown: Option<ShownRole>, is_local: bool) -> AdminRight {
        let live = self.0.load();
        // What an old token was good for is no more than to ask.
        let is_old = |shown: ShownRole| shown.generation != live.admin;
        match shown {
            _ if live.tokens.admin.is_none() && is_local => Ok(Admin(())),
            _ if live.tokens.admin.is_none() => Err(NotAdmin::Remote),
            Some(ShownRole { role: Role::Admin, .. }) if shown.is_some_and(is_old) => Err(NotAdmin::Unknown),
            Some(ShownRole { role: Role::Admin, .. }) => Ok(Admin(())),
            Some(ShownRole { role: Role::Client, .. }) => Err(NotAdmin::Forbidden),
            None => Err(NotAdmin::Unknown),
        }
    }
}

/// Whether a client may do what only an administrator may.
pub(crate) type AdminRight = Result<Admin, NotAdmin>;

/// Why a client may not do what only an administrator may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdmin {
    /// The server has no admin token, and the client is on another machine.
    Remote,
    /// The client has shown no token that is valid.
    Unknown,
    /// The client's token is valid, and not the administrator's.
    Forbidden,
}

/// The right of those who ask for what everybody may: nobody looks at it.
pub(crate) const UNASKED: AdminRight = Err(NotAdmin::Unknown);

/// Proof that a request comes from an administrator; only [`LiveTokens::admin`] makes one.
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
            NotAdmin::Remote => {
                "from this machine only: start the server with --admin-token-file (or --admin-token) to let its \
                 bearer do this from elsewhere"
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
        let all = Tokens {
            auth: auth.clone(),
            admin: admin.clone(),
            metrics: metrics.clone(),
            open_metrics: false,
        };
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
        assert!(Tokens { open_metrics: true, metrics: None, ..all.clone() }.are_metrics_open());
        let open = Tokens { admin, ..Tokens::default() };
        assert!(!open.are_needed() && open.are_metrics_open());
        assert!(!Tokens { metrics, ..Tokens::default() }.are_metrics_open());
        assert_eq!(all.clash(), None);
        let clash = Tokens { admin: auth, ..all }.clash().unwrap();
        assert_eq!(clash.token, "admin");
        assert!(clash.to_string().starts_with("the same as the auth token, so every client"), "{clash}");
    }

    #[test]
    fn an_administrator_has_the_token_or_without_one_is_on_this_machine() {
        let (auth, admin) = (Secret::new("a"), Secret::new("b"));
        let both = LiveTokens::new(Tokens { auth: auth.clone(), admin: admin.clone(), ..Tokens::default() });
        let (client, root) = (both.role(b"a"), both.role(b"b"));
        for is_local in [false, true] {
            assert_eq!(both.admin(client, is_local), Err(NotAdmin::Forbidden));
            assert_eq!(both.admin(root, is_local), Ok(Admin::for_test()));
            assert_eq!(both.admin(None, is_local), Err(NotAdmin::Unknown));
        }
        for tokens in [Tokens::default(), Tokens { auth, ..Tokens::default() }] {
            let live = LiveTokens::new(tokens);
            assert_eq!(live.admin(live.role(b"a"), true), Ok(Admin::for_test()));
            assert_eq!(live.admin(live.role(b"a"), false), Err(NotAdmin::Remote));
        }
    }

    #[test]
    fn an_old_admin_token_is_good_for_asking_at_most() {
        let tokens = |admin| Tokens { admin: Secret::new(admin), ..Tokens::default() };
        let live = LiveTokens::new(tokens("old"));
        let shown = live.role(b"old");
        assert_eq!(live.admin(shown, false), Ok(Admin::for_test()));
        live.replace(tokens("new"));
        assert_eq!(live.role(b"old"), None);
        assert_eq!(live.admin(shown, false), Err(NotAdmin::Unknown));
        assert_eq!(live.admin(live.role(b"new"), false), Ok(Admin::for_test()));
    }

    #[test]
    fn what_is_exchanged_for_the_same_is_not_exchanged() {
        let tokens =
            |auth, admin| Tokens { auth: Secret::new(auth), admin: Secret::new(admin), ..Tokens::default() };
        let live = LiveTokens::new(tokens("ask", "root"));
        let (shown, pass) = (live.role(b"root"), live.pass());
        assert!(!live.replace(tokens("ask", "root")) && pass.is_valid());
        assert!(live.replace(tokens("other", "root")) && !pass.is_valid());
        assert_eq!(live.admin(shown, false), Ok(Admin::for_test()), "the admin token is the same");
    }
}
