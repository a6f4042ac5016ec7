//! `INFO`: the server in lines of `name:value`, as Redis tools read them.

use std::fmt::Write;

use crate::engine::Engine;
use crate::net::ConnectionSlots;

/// Returns the sections that were asked for; all of them if none was.
pub(super) fn render(engine: &Engine, slots: &ConnectionSlots, sections: &[&[u8]]) -> String {
    let is_wanted = |name: &str| {
        sections.is_empty()
            || sections.iter().any(|section| {
                ["all", "everything", "default", name]
                    .iter()
                    .any(|word| section.eq_ignore_ascii_case(word.as_bytes()))
            })
    };
    let mut sections = Vec::new();
    if is_wanted("server") {
        sections.push(server(engine));
    }
    if is_wanted("clients") {
        sections.push(format!("# Clients\r\nconnected_clients:{}\r\n", slots.in_use()));
    }
    if is_wanted("stats") {
        sections.push(stats(engine, slots));
    }
    if is_wanted("keyspace") {
        sections.push(keyspace(engine));
    }
    sections.join("\r\n")
}

fn server(engine: &Engine) -> String {
    // Clients that look for a Redis version want a number that they know.
    format!(
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nratekeeper_version:{}\r\n\
         process_id:{}\r\nuptime_in_seconds:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        engine.uptime(),
    )
}

fn stats(engine: &Engine, slots: &ConnectionSlots) -> String {
    let (served, refused) = slots.history();
    let mut text = format!(
        "# Stats\r\ntotal_connections_received:{}\r\nrejected_connections:{refused}\r\n",
        served + refused
    );
    for (transport, reading) in engine.metrics().read() {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{transport}_allowed:{}\r\n{transport}_denied:{}\r\n{transport}_errors:{}\r\n",
            reading.allowed, reading.denied, reading.errors
        );
    }
    text
}

fn keyspace(engine: &Engine) -> String {
    let Some(store) = engine.memory() else { return "# Keyspace\r\n".to_owned() };
    let statistics = store.statistics();
    format!(
        "# Keyspace\r\nkeys:{}\r\nkeys_of_requests:{}\r\nmax_keys:{}\r\nbytes:{}\r\nbytes_of_requests:{}\r\n\
         max_bytes:{}\r\nkept_for_plans_percent:{}\r\nexpired_keys:{}\r\nrefused_keys:{}\r\n\
         refused_keys_of_requests:{}\r\nrefusing_new_keys:{}\r\n",
        statistics.keys,
        statistics.keys_of_requests,
        statistics.max_keys,
        statistics.bytes,
        statistics.bytes_of_requests,
        statistics.max_bytes,
        statistics.kept_for_plans,
        statistics.expired,
        statistics.refused,
        statistics.refused_of_requests,
        engine.refusing_new_keys().join(","),
    )
}
