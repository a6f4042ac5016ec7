//! What is asked, whichever wire carried it.

/// A question: may something go on that these descriptors describe?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsRequest {
    /// Whose configuration it is held to.
    pub domain: String,
    /// What describes it. Each may find a rule.
    pub descriptors: Vec<RlsDescriptor>,
    /// How many hits it is, for descriptors that say nothing; 0 counts as 1.
    pub hits_addend: u32,
}

impl RlsRequest {
    /// The most descriptors of a request.
    pub const MAX_DESCRIPTORS: usize = 256;
}

/// One description of what is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsDescriptor {
    /// Key and value, level by level.
    pub entries: Vec<RlsEntry>,
    /// A limit that the caller brings, instead of the one that is found.
    pub limit: Option<RlsOverride>,
    /// How many hits it is; 0 looks.
    pub hits_addend: Option<u64>,
    /// Whether the hits are given back.
    pub is_negative: bool,
}

impl RlsDescriptor {
    /// The most entries of a descriptor.
    pub const MAX_ENTRIES: usize = 64;
}

/// One level of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsEntry {
    /// What it says something of, such as `user`.
    pub key: String,
    /// What it says, such as `bob`.
    pub value: String,
}

/// A limit that a caller brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RlsOverride {
    /// How many may pass in a unit.
    pub requests_per_unit: u32,
    /// The number of the unit on the wire, which may be none.
    pub unit: i32,
}
