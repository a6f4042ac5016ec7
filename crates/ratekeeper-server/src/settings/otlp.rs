//! Where spans are sent.

/// How requests are traced: where their spans are sent, and of which requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpSettings {
    /// The collector: `http://host:4318`, or with a path of its own.
    pub url: String,
    /// Of how many requests in a million without a `traceparent` there is a span. With one, its flag decides.
    pub sample: u32,
    /// The name of this service in traces.
    pub service: String,
}

impl OtlpSettings {
    /// The name of the service unless somebody decides otherwise.
    pub const DEFAULT_SERVICE: &'static str = "ratekeeper";

    /// Returns the settings for a collector, with the defaults: spans of requests alone whose caller traces them.
    pub fn to(url: String) -> Self {
        OtlpSettings { url, sample: 0, service: Self::DEFAULT_SERVICE.to_owned() }
    }
}
