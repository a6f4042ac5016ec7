//! How long the machine stood still.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long it sleeps at a time.
const NAP: Duration = Duration::from_millis(5);

/// By so much a nap may be too long before it is a stall: waking is not exact, and that adds up.
const USUAL: Duration = Duration::from_millis(20);

/// Measures for how long a thread that only sleeps could not have run, in all: what is held to a time may take as much longer.
pub(crate) struct StallMeter(Arc<Mutex<Naps>>);

struct Naps {
    fell_asleep: Instant,
    /// By all naps that are over.
    late: Duration,
}

impl StallMeter {
    pub(crate) fn start() -> Self {
        let naps = Arc::new(Mutex::new(Naps { fell_asleep: Instant::now(), late: Duration::ZERO }));
        let shared = Arc::downgrade(&naps);
        // Ends with the meter.
        thread::spawn(move || {
            loop {
                thread::park_timeout(NAP);
                let Some(naps) = shared.upgrade() else { return };
                let mut naps = naps.lock().unwrap();
                naps.late = naps.late();
                naps.fell_asleep = Instant::now();
            }
        });
        StallMeter(naps)
    }

    /// The time that was lost since the start, also by a stall that its thread is still in.
    pub(crate) fn total(&self) -> Duration {
        self.0.lock().unwrap().late()
    }
}

impl Naps {
    fn late(&self) -> Duration {
        let late = self.fell_asleep.elapsed().saturating_sub(NAP);
        if late > USUAL { self.late + late } else { self.late }
    }
}
