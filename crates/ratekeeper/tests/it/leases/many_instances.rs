//! Many instances under one limit, in virtual time: as the simulation that chose the numbers.

use std::time::Duration;

use test_support::cases::is_thorough;
use test_support::lease_scale::{Figures, Run, Traffic};

/// What was simulated: missed in percent at most, calls a second, and answered without waiting in percent.
fn simulated(traffic: Traffic, instances: usize) -> (f64, f64, f64) {
    match (traffic, instances) {
        (Traffic::Under, 4) => (0.0, 163.0, 99.9),
        (Traffic::Under, _) => (0.0, 2_603.0, 99.9),
        (Traffic::Steady, 4) => (0.2, 165.0, 98.4),
        (Traffic::Steady, _) => (0.0, 2_673.0, 98.8),
        (Traffic::Skewed, 4) => (0.0, 161.0, 98.1),
        (Traffic::Skewed, _) => (0.0, 2_518.0, 97.2),
        (Traffic::Attack, 4) => (0.5, 161.0, 96.2),
        (Traffic::Attack, _) => (0.0, 2_541.0, 96.3),
        (Traffic::Crash, 4) => (0.5, 154.0, 98.4),
        (Traffic::Crash, _) => (0.3, 2_492.0, 98.7),
        (Traffic::Hoard, 4) => (0.0, 157.0, 97.4),
        (Traffic::Hoard, _) => (0.0, 2_504.0, 97.7),
        // Spells are few, so that chance has more to say than in the others.
        (Traffic::Bursty, _) => (9.7, 0.0, 95.1),
    }
}

fn check(instances: usize) {
    for traffic in Traffic::ALL {
        let tick = Duration::from_millis(1);
        // Three seconds; ten times the limit are most of the work.
        let ticks = match traffic {
            _ if is_thorough() => 3_000,
            Traffic::Attack => 600,
            _ => 1_200,
        };
        let run = Run { traffic, instances, rate: 100_000, life: 100, tick, ticks };
        let found @ Figures { worst, excess, under, calls, local } = run.figures();
        let told = format!("{traffic:?} on {instances}: {found:?}");
        assert!(excess <= 10_000.0, "{told}: more than r·λ beside the quota");
        assert!(worst <= 1.01, "{told}");
        let (missed, asked, here) = simulated(traffic, instances);
        assert!(under <= missed + 1.5, "{told}: missed");
        assert!(local >= here - 2.5, "{told}: answered here");
        assert!(calls <= 6.0 * instances as f64 / 0.1, "{told}: calls");
        if asked > 0.0 {
            // Every instance asks more often at first, which counts for more in a short run.
            let most = if is_thorough() { 1.15 } else { 1.4 };
            assert!((0.85..=most).contains(&(calls / asked)), "{told}: of {asked} calls");
        }
    }
}

#[test]
fn four_instances_are_as_simulated() {
    check(4);
}

#[test]
fn sixty_four_instances_are_as_simulated() {
    check(64);
}
