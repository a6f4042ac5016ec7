//! What the machine calls itself.

/// Returns the name of the machine, if it can be found out.
pub(super) fn host_name() -> Option<String> {
    // Where Linux has it; elsewhere shells say it, most of the time.
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let told =
        told.or_else(|| ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(|name| std::env::var(name).ok()));
    told.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}
