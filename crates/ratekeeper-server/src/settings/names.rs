//! How messages name the settings.

/// How messages name the settings of a server: as whoever set them knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SettingNames {
    /// As the flags of `ratekeeper serve` spell them.
    #[default]
    Flags,
    /// As the variables of the Go service are called, which `ratekeeper ratelimit` reads.
    Variables,
}

impl SettingNames {
    /// Returns what says where this transport listens, and what to do if it cannot.
    pub(crate) fn of_listener(self, transport: &str) -> (String, &'static str) {
        let name = match (self, transport) {
            (SettingNames::Flags, "debug") => "[rls] debug".to_owned(),
            (SettingNames::Flags, _) => format!("--{transport}"),
            (SettingNames::Variables, "http") => "PORT".to_owned(),
            (SettingNames::Variables, "prometheus") => "PROMETHEUS_ADDR".to_owned(),
            (SettingNames::Variables, _) => format!("{}_PORT", transport.to_uppercase()),
        };
        let remedy = match self {
            SettingNames::Flags => "name a free address, or `off`",
            SettingNames::Variables => "name a free one",
        };
        (name, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_named_as_it_was_set() {
        let names = |names: SettingNames| {
            ["http", "grpc", "debug", "prometheus"].map(|transport| names.of_listener(transport).0)
        };
        assert_eq!(names(SettingNames::Flags), ["--http", "--grpc", "[rls] debug", "--prometheus"]);
        let variables = ["PORT", "GRPC_PORT", "DEBUG_PORT", "PROMETHEUS_ADDR"];
        assert_eq!(names(SettingNames::Variables), variables);
    }
}
