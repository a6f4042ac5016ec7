//! How many questions of late were answered, and how many failed.

use super::settings::BreakerSettings;
use crate::{Nanos, Timestamp};

/// Parts of the window: what is forgotten at once is a tenth of it.
const PARTS: u8 = 10;

/// Counts over the last window, in parts.
#[derive(Debug)]
pub(super) struct FailureWindow {
    parts: [WindowPart; PARTS as usize],
    /// How long a part is, in nanoseconds.
    part: i64,
    /// The number of the newest part, counted from the epoch.
    newest: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowPart {
    asked: u64,
    failed: u64,
}

impl FailureWindow {
    /// Returns an empty window of this length.
    pub(super) fn new(length: Nanos) -> Self {
        let part = i64::try_from(length.as_nanos() / u64::from(PARTS)).unwrap_or(i64::MAX).max(1);
        FailureWindow { parts: [WindowPart::default(); PARTS as usize], part, newest: i64::MIN }
    }

    /// Counts one answer or failure, and forgets the parts of the window that are over.
    pub(super) fn count(&mut self, failed: bool, now: Timestamp) {
        let number = now.as_nanos().div_euclid(self.part);
        // A clock that stepped back begins anew: what was counted lies in a future that may not come.
        let passed = number.checked_sub(self.newest).and_then(|passed| usize::try_from(passed).ok());
        match passed {
            Some(passed) if passed < usize::from(PARTS) => {
                (0..passed).for_each(|back| {
                    *self.at(number.wrapping_sub_unsigned(back as u64)) = WindowPart::default()
                });
            }
            _ => self.parts = [WindowPart::default(); PARTS as usize],
        }
        self.newest = number;
        let tally = self.at(number);
        tally.asked = tally.asked.saturating_add(1);
        tally.failed = tally.failed.saturating_add(u64::from(failed));
    }

    /// Returns true if enough were asked to tell, and too many of them failed.
    pub(super) fn is_bad(&self, settings: &BreakerSettings) -> bool {
        let (asked, failed) = self.parts.iter().fold((0u128, 0u128), |sum, part| {
            (sum.0 + u128::from(part.asked), sum.1 + u128::from(part.failed))
        });
        asked >= settings.least_in_window.into()
            && failed * 100 >= asked * u128::from(settings.failed_percent)
    }

    fn at(&mut self, number: i64) -> &mut WindowPart {
        // The remainder is below PARTS, which any usize holds.
        let index = usize::try_from(number.rem_euclid(PARTS.into())).unwrap_or(0);
        &mut self.parts[index]
    }
}
