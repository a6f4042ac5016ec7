//! What a load asks for: which keys, under which quota.

use std::fmt;

use ratekeeper::{Algorithm, Quota};

use super::rls_request::RlsTemplate;

/// The requests of a load: random keys, all under one quota.
#[derive(Clone, Debug)]
pub struct Work {
    quota: Quota,
    throttle: ThrottleNumbers,
    template: RlsTemplate,
    keys: u32,
    /// The share of requests that go to the first key, as a fraction of `u32::MAX`.
    hot: u32,
}

/// A quota as the three numbers that every transport understands.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThrottleNumbers {
    pub(super) burst: i32,
    pub(super) count: i32,
    pub(super) period: i32,
}

/// The length of every key, in bytes.
const KEY: usize = 20;

impl Work {
    /// Returns requests for so many keys, each under this quota; Envoy's service is asked by the template. The first key gets the share `hot`, from 0 to 1, of all
    /// requests on top of its own.
    ///
    /// # Errors
    ///
    /// The text is not a quota that every transport can ask for, there are no keys, or `hot` is not a share.
    pub fn new(quota: &str, template: &RlsTemplate, keys: u32, hot: f64) -> Result<Self, WorkError> {
        let parsed: Quota = quota.parse().map_err(WorkError::Quota)?;
        let seconds = parsed.period().as_nanos() / 1_000_000_000;
        let whole = seconds * 1_000_000_000 == parsed.period().as_nanos();
        let small = |number: u64| i32::try_from(number).ok();
        let throttle = (small(parsed.burst()), small(parsed.count()), small(seconds).filter(|_| whole));
        let (Some(burst), Some(count), Some(period)) = throttle else {
            return Err(WorkError::NoThrottle(parsed));
        };
        if parsed.algorithm() != Algorithm::Gcra {
            return Err(WorkError::NoThrottle(parsed));
        }
        if keys == 0 {
            return Err(WorkError::NoKeys);
        }
        if !(0.0..=1.0).contains(&hot) {
            return Err(WorkError::Hot(hot));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the whole range"
        )]
        let hot = (hot * f64::from(u32::MAX)) as u32;
        let (throttle, template) = (ThrottleNumbers { burst, count, period }, template.clone());
        Ok(Work { quota: parsed, throttle, template, keys, hot })
    }

    pub(super) fn quota(&self) -> &Quota {
        &self.quota
    }

    pub(super) fn keys(&self) -> u32 {
        self.keys
    }

    /// Returns what Envoy's service is asked, which holds its callers to limits of its own.
    pub(super) fn template(&self) -> &RlsTemplate {
        &self.template
    }

    pub(super) fn throttle(&self) -> ThrottleNumbers {
        self.throttle
    }

    /// Returns a stream of random keys; the same seed draws the same keys.
    pub(super) fn draw(&self, seed: u64) -> KeyDraw {
        // Not by a multiple of the step: each stream would then be the one before it, a draw later.
        let state = (seed + 1).wrapping_mul(0xd134_2543_de82_ef95);
        KeyDraw { state, keys: self.keys, hot: self.hot, text: *b"key:0000000000000000" }
    }
}

/// A stream of random keys.
#[derive(Clone, Debug)]
pub(super) struct KeyDraw {
    state: u64,
    keys: u32,
    hot: u32,
    text: [u8; KEY],
}

impl KeyDraw {
    /// Returns the next key. Does not allocate.
    #[inline]
    pub(super) fn key(&mut self) -> &[u8; KEY] {
        let mut number = self.next();
        self.text[KEY - 10..].fill(b'0');
        let mut at = KEY;
        while number > 0 {
            at -= 1;
            self.text[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
        &self.text
    }

    /// Returns the number of the next key, by splitmix64: fast, and even enough.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let (coin, place) = ((mixed >> 32) as u32, mixed as u32);
        if coin < self.hot {
            return 0;
        }
        ((u64::from(place) * u64::from(self.keys)) >> 32) as u32
    }
}

/// Why a load cannot ask for this.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WorkError {
    /// The text is not a quota.
    Quota(ratekeeper::QuotaError),
    /// Not every transport can ask for this quota.
    NoThrottle(Quota),
    /// There are no keys.
    NoKeys,
    /// The share of the hot key is not from 0 to 1.
    Hot(f64),
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkError::Quota(error) => write!(f, "--quota: {error}"),
            WorkError::NoThrottle(quota) => {
                write!(
                    f,
                    "--quota `{quota}`: must be GCRA with a period of whole seconds, such as `1000/m burst 100`"
                )
            }
            WorkError::NoKeys => f.write_str("--keys 0: must be at least 1"),
            WorkError::Hot(share) => write!(f, "--hot {share}: must be from 0 to 1"),
        }
    }
}

impl std::error::Error for WorkError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(quota: &str, keys: u32, hot: f64) -> Result<Work, WorkError> {
        Work::new(quota, &"bench user=%".parse().unwrap(), keys, hot)
    }

    #[test]
    fn keys_are_drawn_evenly_and_the_hot_one_more_often() {
        let drawn = |hot| {
            let mut draw = work("1/s", 10, hot).unwrap().draw(7);
            let mut counts = [0u32; 10];
            for _ in 0..10_000 {
                counts[usize::from(draw.key()[KEY - 1] - b'0')] += 1;
            }
            counts
        };
        assert!(drawn(0.0).iter().all(|count| (800..1_200).contains(count)), "{:?}", drawn(0.0));
        assert!((5_200..5_800).contains(&drawn(0.5)[0]), "{:?}", drawn(0.5));
        assert_eq!(drawn(1.0)[1..], [0; 9]);
    }

    /// Streams that were one another's, a draw later, once made a million keys a few thousand.
    #[test]
    fn streams_share_no_more_keys_than_chance_has_it() {
        let work = work("1/s", 1_000_000, 0.0).unwrap();
        let mut drawn = std::collections::HashSet::new();
        for seed in 0..50 {
            let mut draw = work.draw(seed);
            drawn.extend((0..200).map(|_| *draw.key()));
        }
        assert!(drawn.len() > 9_800, "{} of 10,000", drawn.len());
    }

    #[test]
    fn what_cannot_be_asked_for() {
        let error = |quota, keys, hot| work(quota, keys, hot).unwrap_err().to_string();
        assert!(error("1/ms", 1, 0.0).contains("whole seconds"));
        assert!(error("1/s bucket", 1, 0.0).contains("GCRA"));
        assert!(error("0/s", 1, 0.0).contains("--quota: count: 0"));
        assert!(error("1/s", 0, 0.0).contains("--keys"));
        assert!(error("1/s", 1, 2.0).contains("--hot"));
    }
}
