//! What has changed since it was last sent.

use std::collections::{HashMap, HashSet};

/// The longest datagram: what fits into a packet of Ethernet.
pub(super) const MAX_PACKET: usize = 1432;

/// What was sent so far, by name.
#[derive(Debug, Default)]
pub(super) struct StatsdReport {
    sent: HashMap<String, u64>,
    /// What every name ends with.
    tags: String,
}

/// Lines that are sent together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StatsdPacket {
    pub(super) text: String,
    /// What was counted when the lines were written.
    counted: Vec<(String, u64)>,
}

impl StatsdReport {
    /// Returns a report of nothing, with these tags: `name.__key=value`, as the Go service writes them.
    pub(super) fn new(tags: &[(String, String)]) -> Self {
        let mut tags: Vec<_> = tags.iter().collect();
        tags.sort();
        let plain = |text: &str| text.replace(['.', ':', '|', '\n'], "_");
        let tags = tags.into_iter().map(|(key, value)| format!(".__{}={}", plain(key), plain(value)));
        StatsdReport { sent: HashMap::new(), tags: tags.collect() }
    }

    /// Returns what has come since, as lines in packets. Each name is there once; what is no longer there is forgotten, so that
    /// it begins anew if it comes back.
    pub(super) fn packets(&mut self, counters: Vec<(String, u64)>) -> Vec<StatsdPacket> {
        let known: HashSet<&str> = counters.iter().map(|(name, _)| name.as_str()).collect();
        self.sent.retain(|name, _| known.contains(name.as_str()));
        let mut packets: Vec<StatsdPacket> = Vec::new();
        for (name, count) in counters {
            let before = self.sent.get(&name).copied().unwrap_or(0);
            // A counter that went back has begun anew.
            let more = count.checked_sub(before).unwrap_or(count);
            if more == 0 {
                continue;
            }
            let line = format!("{name}{}:{more}|c\n", self.tags);
            let packet = match packets.last_mut() {
                Some(last) if last.text.len() + line.len() <= MAX_PACKET => last,
                _ => {
                    packets.push(StatsdPacket::default());
                    let Some(last) = packets.last_mut() else { continue };
                    last
                }
            };
            packet.text.push_str(&line);
            packet.counted.push((name, count));
        }
        packets
    }

    /// Notes that a packet was sent: what was not is part of the next report.
    pub(super) fn was_sent(&mut self, packet: StatsdPacket) {
        self.sent.extend(packet.counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn only_what_has_come_since_is_told() {
        let mut report = StatsdReport::new(&[]);
        let first = report.packets(counters(&[("a.b", 3), ("c", 0)]));
        assert_eq!(first[0].text, "a.b:3|c\n");
        // It was not sent, so it is told again.
        let mut again = report.packets(counters(&[("a.b", 4), ("c", 1)]));
        assert_eq!(again[0].text, "a.b:4|c\nc:1|c\n");
        report.was_sent(again.remove(0));
        assert!(report.packets(counters(&[("a.b", 4), ("c", 1)])).is_empty());
        assert_eq!(report.packets(counters(&[("a.b", 9), ("c", 1)]))[0].text, "a.b:5|c\n");
        assert_eq!(report.packets(counters(&[("a.b", 2)]))[0].text, "a.b:2|c\n", "it has begun anew");
    }

    #[test]
    fn a_name_that_comes_back_begins_anew() {
        let mut report = StatsdReport::new(&[]);
        let first = report.packets(counters(&[("a", 3)])).remove(0);
        report.was_sent(first);
        assert!(report.packets(counters(&[("b", 0)])).is_empty());
        assert_eq!(report.packets(counters(&[("a", 4)]))[0].text, "a:4|c\n");
    }

    #[test]
    fn packets_fit_into_one_frame_and_lines_are_not_cut() {
        let mut report = StatsdReport::new(&[]);
        let names: Vec<String> = (0..300).map(|number| format!("ratelimit.service.rule-{number}")).collect();
        let packets = report.packets(names.iter().map(|name| (name.clone(), 1)).collect());
        assert!(packets.len() > 1);
        assert!(
            packets.iter().all(|packet| packet.text.len() <= MAX_PACKET && packet.text.ends_with("|c\n"))
        );
        assert_eq!(packets.iter().map(|packet| packet.text.lines().count()).sum::<usize>(), 300);
    }

    #[test]
    fn tags_end_the_name_in_order() {
        let tags = [("zone", "eu.1"), ("app", "a:b")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let packets = StatsdReport::new(&tags).packets(counters(&[("x", 1)]));
        assert_eq!(packets[0].text, "x.__app=a_b.__zone=eu_1:1|c\n");
    }
}
