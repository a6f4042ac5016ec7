//! What the rounds of one contender measured.

/// One figure for each round, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns this by the other, round by round: what disturbs one round disturbs both.
    pub(crate) fn by(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(one, other)| one / other).collect())
    }

    /// Returns the median, and in brackets the least and the most.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (median, least, most) = (at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1)));
        format!("{median:.decimals$} ({least:.decimals$}–{most:.decimals$})")
    }
}
