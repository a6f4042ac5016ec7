//! The fields of requests.

/// A field of a request, whatever a wire calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestField {
    /// Who asks.
    Key,
    /// The plan, or the plans, that the request is held to.
    Plan,
    /// A quota in words that the request brings.
    Quota,
    /// The burst of a quota in numbers.
    MaxBurst,
    /// The count of a quota in numbers.
    CountPerPeriod,
    /// The period of a quota in numbers, in seconds.
    Period,
    /// How much a throttle takes.
    Quantity,
    /// How much is taken of which unit.
    Costs,
    /// How long something is held.
    Lease,
    /// Which hold is meant.
    Id,
    /// Which keys are to be forgotten.
    Prefix,
}

impl RequestField {
    /// Returns the name of the field in HTTP, which most wires share.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            RequestField::Key => "key",
            RequestField::Plan => "plan",
            RequestField::Quota => "quota",
            RequestField::MaxBurst => "max_burst",
            RequestField::CountPerPeriod => "count_per_period",
            RequestField::Period => "period",
            RequestField::Quantity => "quantity",
            RequestField::Costs => "costs",
            RequestField::Lease => "lease_ms",
            RequestField::Id => "id",
            RequestField::Prefix => "prefix",
        }
    }

    /// Returns what to do about a request without this field.
    pub(crate) const fn if_missing(self) -> &'static str {
        match self {
            RequestField::Key => "missing; say who asks",
            RequestField::Plan => "missing; name at least one plan, or send a quota",
            RequestField::Quota => "missing; send a quota such as `10/s burst 20`",
            RequestField::MaxBurst => "missing, and no default_burst is configured",
            RequestField::CountPerPeriod => "missing, and no default_rate is configured",
            RequestField::Period => "missing, and no default_period is configured",
            RequestField::Quantity => "missing; send a whole number",
            RequestField::Costs => "missing; say how much of which unit",
            RequestField::Lease => "missing; say how long it is to last from now, 1 ms to 24 h",
            RequestField::Id => "missing; send the id that the hold was answered with",
            RequestField::Prefix => {
                "missing or empty; every key starts with nothing: set `all` to true if that is meant"
            }
        }
    }
}
