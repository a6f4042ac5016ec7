//! Figures of several rounds, as a table shows them.

use std::fmt;

/// The middle of several figures, with the least and the most of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Returns the spread of these figures; of none, it is not a number.
    pub(super) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Spread { median: at(figures.len() / 2), least: at(0), most: at(figures.len().saturating_sub(1)) }
    }
}

impl fmt::Display for Spread {
    /// With as many decimals as asked for, two if not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(2);
        let Spread { median, least, most } = self;
        write!(f, "{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_both_ends() {
        assert_eq!(format!("{:.1}", Spread::of(vec![3.0, 1.0, 2.0])), "2.0 (1.0–3.0)");
        assert_eq!(format!("{}", Spread::of(vec![0.5])), "0.50 (0.50–0.50)");
        assert_eq!(format!("{}", Spread::of(Vec::new())), "NaN (NaN–NaN)");
    }
}
