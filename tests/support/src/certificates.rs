//! Certificates with their keys, committed: `certificates/make.sh` has made them. All but those about time are valid from 2024 to 2126.

use crate::folder::Folder;

/// A certificate and its key, both as PEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    pub cert: &'static str,
    pub key: &'static str,
}

impl Certificate {
    /// Writes the files `cert.pem` and `key.pem`, and returns their paths.
    pub fn write(&self, folder: &Folder) -> (String, String) {
        (folder.write("cert.pem", self.cert), folder.write("key.pem", self.key))
    }

    /// Writes the files `NAME.pem` and `NAME.key.pem`, and returns their paths.
    pub fn write_as(&self, folder: &Folder, name: &str) -> (String, String) {
        (folder.write(&format!("{name}.pem"), self.cert), folder.write(&format!("{name}.key.pem"), self.key))
    }
}

macro_rules! certificates {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])*
        pub const $name: Certificate = Certificate {
            cert: include_str!(concat!("../certificates/", $file, ".pem")),
            key: include_str!(concat!("../certificates/", $file, ".key.pem")),
        };)*
    };
}

certificates! {
    /// Self-signed, for `localhost` and `127.0.0.1`.
    ONE = "one";
    /// Like [`ONE`].
    TWO = "two";
    /// Like [`ONE`].
    THREE = "three";
    /// Like [`ONE`], but expired in 2020.
    EXPIRED = "expired";
    /// Like [`ONE`], but valid from 2125 on.
    NOT_YET = "not-yet";
    /// Valid from 2024-02-29 to 2049-12-31: both in the short form of time.
    LEAP_DAY = "leap-day";
    /// Valid from 1970 to 4096: the end is in the long form of time.
    LONG_LIFE = "long-life";
    /// A certificate authority, which has signed those below it.
    AUTHORITY = "authority";
    /// For `localhost`.
    LOCALHOST = "localhost";
    /// For `127.0.0.1`.
    LOOPBACK = "loopback";
    /// Like [`LOOPBACK`].
    LOOPBACK_TWO = "loopback-two";
    /// Like [`LOOPBACK`].
    LOOPBACK_THREE = "loopback-three";
    /// For `limits.example`.
    LIMITS = "limits.example";
    /// For `plane.example`.
    PLANE = "plane.example";
    /// For `node.example`.
    NODE = "node.example";
    /// For `envoy.example.org`.
    ENVOY = "envoy.example.org";
    /// For `other.example.org`.
    OTHER = "other.example.org";
}
