//! Which keys there are, and where they belong.

/// What a map is, by where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapKind {
    Root,
    Descriptor,
    RateLimit,
    Replaced,
    Shadow,
    /// One that stands where the Go service looks for none.
    Ignored,
}

impl MapKind {
    const fn word(self) -> &'static str {
        match self {
            MapKind::Root => "the first level of the file",
            MapKind::Descriptor => "a descriptor",
            MapKind::RateLimit => "`rate_limit`",
            MapKind::Replaced => "`replaces`",
            MapKind::Shadow => "`shadow`",
            MapKind::Ignored => "nothing",
        }
    }
}

/// A key: where it belongs, and whether the Go service knows it.
pub(super) struct KnownField {
    name: &'static str,
    belongs: &'static [MapKind],
    is_ours: bool,
}

const fn theirs(name: &'static str, belongs: &'static [MapKind]) -> KnownField {
    KnownField { name, belongs, is_ours: false }
}

const fn ours(name: &'static str, belongs: &'static [MapKind]) -> KnownField {
    KnownField { name, belongs, is_ours: true }
}

const FIELDS: [KnownField; 25] = [
    theirs("domain", &[MapKind::Root]),
    theirs("descriptors", &[MapKind::Root, MapKind::Descriptor]),
    theirs("key", &[MapKind::Descriptor]),
    theirs("value", &[MapKind::Descriptor]),
    theirs("rate_limit", &[MapKind::Descriptor]),
    theirs("shadow_mode", &[MapKind::Descriptor]),
    theirs("quota_mode", &[MapKind::Descriptor]),
    theirs("detailed_metric", &[MapKind::Descriptor]),
    theirs("value_to_metric", &[MapKind::Descriptor]),
    theirs("share_threshold", &[MapKind::Descriptor]),
    theirs("metadata", &[MapKind::Descriptor]),
    ours("shadow", &[MapKind::Descriptor]),
    theirs("unit", &[MapKind::RateLimit]),
    theirs("requests_per_unit", &[MapKind::RateLimit]),
    theirs("unlimited", &[MapKind::RateLimit]),
    theirs("name", &[MapKind::RateLimit, MapKind::Replaced]),
    theirs("replaces", &[MapKind::RateLimit]),
    ours("algorithm", &[MapKind::RateLimit]),
    ours("burst", &[MapKind::RateLimit]),
    ours("unit_multiplier", &[MapKind::RateLimit]),
    ours("calendar", &[MapKind::RateLimit]),
    ours("limit", &[MapKind::RateLimit, MapKind::Shadow]),
    ours("plan", &[MapKind::RateLimit]),
    ours("over", &[MapKind::RateLimit]),
    ours("on_store_error", &[MapKind::RateLimit]),
];

/// What a key means in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldPlace {
    /// It belongs there.
    Here,
    /// The Go service takes it and does nothing with it: so do we, and say this.
    MeansNothing(String),
    /// It does not belong there, and is ours, so that no file of the Go service has it.
    Misplaced(String),
    /// No map has it.
    Unknown,
}

/// Returns what a key means in a map.
pub(super) fn place(key: &str, map: MapKind) -> FieldPlace {
    let Some(field) = FIELDS.iter().find(|field| field.name == key) else { return FieldPlace::Unknown };
    if field.belongs.contains(&map) {
        return FieldPlace::Here;
    }
    let belongs: Vec<&str> = field.belongs.iter().map(|map| map.word()).collect();
    let belongs = belongs.join(" or ");
    match field.is_ours {
        true => FieldPlace::Misplaced(format!("`{key}` does not belong here: it belongs in {belongs}")),
        false => FieldPlace::MeansNothing(format!("`{key}` means nothing here: it belongs in {belongs}")),
    }
}
