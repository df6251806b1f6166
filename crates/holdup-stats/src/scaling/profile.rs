//! Where the peak and the ceiling lie, by profile likelihood.
//!
//! A value stays in the interval as long as the best fit that has it is not worse than the best fit
//! of all by more than RSS·t²/df (an F test with one degree of freedom).

use super::fit::Data;
use super::least_squares::{Minimum, Problem};
use super::usl::Usl;
use super::{Bounds, Coefficient, Model, Peak};

/// Ends farther from the estimate than this factor are no ends.
const FARTHEST: f64 = 1e4;

const METHOD: &str = "profile likelihood, F with one degree of freedom";

pub(super) struct Reach<'a> {
    model: Model,
    data: &'a Data,
    found: &'a Minimum,
    threshold: f64,
    beta_low: f64,
}

/// Parameters that are left free, and how they and the wanted value give all parameters.
type Expand<'f> = &'f dyn Fn(f64, &[f64]) -> Option<Vec<f64>>;

impl<'a> Reach<'a> {
    pub(super) fn new(model: Model, data: &'a Data, found: &'a Minimum, t: f64, coefficients: &[Coefficient]) -> Self {
        let df = (data.n() - model.parameters()) as f64;
        // The last term lets rounding pass where a model goes through all points.
        let threshold = found.rss * (1.0 + t * t / df) + 1e-26 * data.n() as f64;
        let beta_low = if model == Model::Usl { coefficients[1].low } else { 0.0 };
        Reach { model, data, found, threshold, beta_low }
    }

    fn usl(&self) -> Usl {
        Usl { alpha: self.found.at[0], beta: self.found.at[1], gamma: self.found.at[2] }
    }

    /// Where the throughput is largest.
    pub(super) fn peak(&self) -> Peak {
        if self.model != Model::Usl {
            return Peak::None { reason: "throughput of this model never falls".to_owned(), not_before: None };
        }
        let usl = self.usl();
        if usl.alpha >= 1.0 {
            return Peak::None {
                reason: "throughput does not rise from the first load on".to_owned(),
                not_before: None,
            };
        }
        let load = usl.peak_load();
        let least = self.peak_load_end(load.unwrap_or(self.data.most_load * FARTHEST), false);
        let (Some(load), Some(throughput)) = (load, usl.peak_throughput()) else {
            return Peak::None { reason: "no peak within reach: beta is zero".to_owned(), not_before: least };
        };
        if self.beta_low <= 0.0 {
            return Peak::None {
                reason: "no peak within reach: the interval of beta includes zero".to_owned(),
                not_before: least,
            };
        }
        let unit = self.data.y_unit;
        Peak::At {
            load: Bounds { value: load, low: least, high: self.peak_load_end(load, true), method: METHOD },
            throughput: Bounds {
                value: throughput * unit,
                low: self.peak_throughput_end(throughput, false).map(|x| x * unit),
                high: self.peak_throughput_end(throughput, true).map(|x| x * unit),
                method: METHOD,
            },
            beyond_loads: load > self.data.most_load,
        }
    }

    /// The ceiling of throughput: of contention alone (USL, Amdahl), or of the server.
    pub(super) fn limit(&self) -> Option<Bounds> {
        let at = &self.found.at;
        let value = match self.model {
            Model::Usl => self.usl().contention_limit(),
            Model::Amdahl => Usl { alpha: at[0], beta: 0.0, gamma: at[1] }.contention_limit(),
            Model::Repairman => Some(1.0 / at[0]).filter(|x| x.is_finite()),
        }?;
        let (expand, start): (Expand<'_>, Vec<f64>) = match self.model {
            Model::Usl => (&|limit, p| Some(vec![p[1] / limit, p[0], p[1]]), vec![at[1], at[2]]),
            Model::Amdahl => (&|limit, p| Some(vec![p[0] / limit, p[0]]), vec![at[1]]),
            Model::Repairman => (&|limit, p| Some(vec![1.0 / limit, p[0]]), vec![at[1]]),
        };
        let end = |up| self.end(value, up, expand, &start).map(|x| x * self.data.y_unit);
        Some(Bounds { value: value * self.data.y_unit, low: end(false), high: end(true), method: METHOD })
    }

    fn peak_load_end(&self, from: f64, up: bool) -> Option<f64> {
        // β = (1 − α)/N².
        let expand = |load: f64, p: &[f64]| (p[0] < 1.0).then(|| vec![p[0], (1.0 - p[0]) / load / load, p[1]]);
        self.end(from, up, &expand, &[self.found.at[0], self.found.at[2]])
    }

    fn peak_throughput_end(&self, from: f64, up: bool) -> Option<f64> {
        let expand = |peak: f64, p: &[f64]| {
            let unit = Usl { alpha: p[0], beta: p[1], gamma: 1.0 };
            Some(vec![p[0], p[1], peak / unit.peak_throughput()?])
        };
        self.end(from, up, &expand, &self.found.at[..2])
    }

    /// The end of the interval on one side: out by growing steps on the log scale until the best fit
    /// is too bad, then by halving. `None` when it has no end within a factor of [`FARTHEST`] squared.
    fn end(&self, from: f64, up: bool, expand: Expand<'_>, start: &[f64]) -> Option<f64> {
        let direction = if up { 1.0 } else { -1.0 };
        let mut near = start.to_vec();
        let mut inside = 0.0;
        let mut step = 0.01;
        let place = |log: f64| from * (direction * log).exp();
        let outside = loop {
            let out = inside + step;
            if out > 2.0 * FARTHEST.ln() {
                return None;
            }
            match self.best_with(place(out), expand, &near, start) {
                Some(m) if m.rss <= self.threshold => {
                    near = m.at;
                    inside = out;
                    step *= 2.0;
                }
                _ => break out,
            }
        };
        let (mut low, mut high) = (inside, outside);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            match self.best_with(place(middle), expand, &near, start) {
                Some(m) if m.rss <= self.threshold => {
                    near = m.at;
                    low = middle;
                }
                _ => high = middle,
            }
            if high - low < 1e-9 {
                break;
            }
        }
        Some(place(high)).filter(|x| x.is_finite() && *x > 0.0)
    }

    /// The best fit that has the wanted value, from the neighbour's and from the overall optimum.
    fn best_with(&self, value: f64, expand: Expand<'_>, near: &[f64], start: &[f64]) -> Option<Minimum> {
        let residuals = |p: &[f64], into: &mut Vec<f64>| match expand(value, p) {
            Some(all) => self.data.residuals(self.model, &all, into),
            None => false,
        };
        let lower = vec![0.0; near.len()];
        let most = self.data.most_load.max(1.0);
        let scale: Vec<f64> = start.iter().map(|s| (s.abs() * 0.1).max(1e-3 / most / most)).collect();
        let problem = Problem { residuals: &residuals, lower: &lower, scale: &scale, tolerance: 1e-12 };
        let (a, b) = (problem.minimise(near), problem.minimise(start));
        match (a, b) {
            (Some(a), Some(b)) => Some(if a.rss <= b.rss { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}
