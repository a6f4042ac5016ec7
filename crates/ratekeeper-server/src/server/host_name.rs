//! What the machine calls itself.

/// Returns the name of the machine, if it has one. Asks the kernel: a service manager may hide `/proc/sys`, and sets no
/// variable.
pub(super) fn host_name() -> Option<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().trim().to_owned();
    Some(name).filter(|name| !name.is_empty())
}

/// Returns the name without its domain, if it has one.
pub(super) fn without_domain(name: &str) -> Option<&str> {
    name.split_once('.').map(|(short, _)| short).filter(|short| !short.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_name() {
        let own = host_name().unwrap();
        // The kernel tells the same here, where it is not hidden.
        if let Ok(told) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
            assert_eq!(own, told.trim());
        }
        assert_eq!(without_domain("api-1.example.org"), Some("api-1"));
        assert_eq!((without_domain("api-1"), without_domain(".example")), (None, None));
    }
}
