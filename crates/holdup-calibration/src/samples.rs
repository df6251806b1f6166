//! What the repeats of a measurement gave.

use holdup_model::Problem;

/// The fewest repeats that a value may rest on.
pub(super) const FEWEST: usize = 15;

/// The values of the repeats of one measurement, ns, ascending; at least one, all finite and not negative.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The values of `what`, in any order. Small negative ones, which the difference of two times may be, count as 0.
    ///
    /// # Errors
    /// When they are fewer than 15 or their median is not above 0: what was to be measured drowns in noise then.
    pub fn of(what: &str, mut values: Vec<f64>) -> Result<Self, Problem> {
        values.retain(|ns| ns.is_finite());
        if values.len() < FEWEST {
            let why =
                format!("only {} repeats could be used, {FEWEST} are needed: other work disturbs it", values.len());
            return Err(Problem::host(what, why));
        }
        values.sort_by(f64::total_cmp);
        values.iter_mut().for_each(|ns| *ns = ns.max(0.0));
        let samples = Samples(values);
        match samples.median_ns() > 0.0 {
            true => Ok(samples),
            false => Err(Problem::host(what, "what is taken off is as long as the whole: other work disturbs it")),
        }
    }

    /// The share `p` of the values is not above this, ns.
    fn quantile_ns(&self, p: f64) -> f64 {
        let at = (p * (self.0.len() - 1) as f64).round() as usize;
        self.0[at.min(self.0.len() - 1)]
    }

    /// The middle value, ns.
    pub fn median_ns(&self) -> f64 {
        self.quantile_ns(0.5)
    }

    /// The 5th and the 95th percentile, ns.
    pub fn range_ns(&self) -> (f64, f64) {
        (self.quantile_ns(0.05), self.quantile_ns(0.95))
    }

    /// How many repeats there were.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The lower quartile of the pieces of a repeat: what others do on the CPU makes a piece longer, never shorter.
/// `None` when there is no piece.
pub(super) fn quiet(mut pieces: Vec<f64>) -> Option<f64> {
    pieces.sort_by(f64::total_cmp);
    pieces.get(pieces.len() / 4).copied()
}

/// The middle of some values; `None` when there is none.
pub(super) fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_the_median_and_the_range_leaves_out_a_twentieth_at_each_end() {
        let samples = Samples::of("x", (0..=100).rev().map(f64::from).collect()).expect("enough");
        assert_eq!((samples.median_ns(), samples.range_ns(), samples.count()), (50.0, (5.0, 95.0), 101));
        let few = Samples::of("x", vec![1.0; 14]).expect_err("too few");
        assert!(few.why.starts_with("only 14 repeats"), "{few}");
        let noise = Samples::of("x", (-10..=11).map(f64::from).collect()).expect("above 0 in the middle");
        assert_eq!(noise.range_ns().0, 0.0);
        assert!(Samples::of("x", vec![-1.0; 20]).is_err());
        assert!(Samples::of("x", vec![f64::NAN; 20]).is_err());
    }

    #[test]
    fn the_quiet_quarter_counts() {
        assert_eq!(quiet(vec![9.0, 1.0, 2.0, 8.0]), Some(2.0));
        assert_eq!((quiet(Vec::new()), middle(Vec::new())), (None, None));
        assert_eq!(middle(vec![9.0, 1.0, 2.0]), Some(2.0));
    }
}
