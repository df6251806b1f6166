//! How throughput grows with load: laws of scaling fitted to points, and cliffs.
//!
//! Weighted non-linear least squares. Points count as independent: average trials of a block first,
//! and read the intervals as too narrow when all points of a block move together.

pub mod calibrate;
pub mod cliff;
mod fit;
mod least_squares;
mod profile;
pub mod repairman;
pub mod usl;

pub use cliff::{Cliff, CliffKind, CliffPoint, CliffSearch, find_cliff};
pub use repairman::Repairman;
pub use usl::Usl;

use crate::NoEstimate;
use crate::verdict::ALPHA;

/// Throughput measured at a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// Clients, threads or CPUs; above zero.
    pub load: f64,
    /// Throughput, any unit, from zero on.
    pub throughput: f64,
    /// Weight of the squared residual, above zero: 1, or one over the variance of the point.
    pub weight: f64,
}

/// A law of scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// Universal Scalability Law: α, β, γ. See [`Usl`].
    Usl,
    /// Amdahl's law: α, γ. See [`Usl`].
    Amdahl,
    /// Machine repairman: service and think time. See [`Repairman`].
    Repairman,
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 3] = [Model::Usl, Model::Amdahl, Model::Repairman];

    /// How many coefficients it has.
    pub fn parameters(self) -> usize {
        match self {
            Model::Usl => 3,
            Model::Amdahl | Model::Repairman => 2,
        }
    }

    /// Its name in running text.
    pub fn name(self) -> &'static str {
        match self {
            Model::Usl => "Universal Scalability Law",
            Model::Amdahl => "Amdahl's law",
            Model::Repairman => "machine repairman",
        }
    }
}

/// A coefficient with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficient {
    /// `alpha`, `beta`, `gamma`, `service_s` or `think_s`.
    pub name: &'static str,
    /// The estimate, never below zero.
    pub value: f64,
    /// Standard error, from the Jacobian at the estimate.
    pub standard_error: f64,
    /// Lower end of the 95 % t interval; may lie below zero, which says that zero is compatible.
    pub low: f64,
    /// Upper end of the 95 % t interval.
    pub high: f64,
}

/// A derived value with a 95 % interval that may be open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The value.
    pub value: f64,
    /// Lower end; `None` when the data set none.
    pub low: Option<f64>,
    /// Upper end; `None` when the data set none.
    pub high: Option<f64>,
    /// How the ends were found.
    pub method: &'static str,
}

/// Where throughput is largest.
#[derive(Debug, Clone, PartialEq)]
pub enum Peak {
    /// Throughput rises up to a load and falls beyond it.
    At {
        /// The load of the peak, √((1 − α)/β).
        load: Bounds,
        /// The throughput there.
        throughput: Bounds,
        /// True if the peak lies beyond the largest measured load: then nothing measured fell.
        beyond_loads: bool,
    },
    /// The points show no peak.
    None {
        /// Why.
        reason: String,
        /// The load before which a peak is excluded (lower end of the interval), if there is one.
        not_before: Option<f64>,
    },
}

/// Whether the shape of a model fits the points.
#[derive(Debug, Clone, PartialEq)]
pub enum FitTest {
    /// Several points at a load: lack-of-fit F test.
    LackOfFit {
        /// The statistic.
        f: f64,
        /// Loads less coefficients.
        df_model: u32,
        /// Points less loads.
        df_error: u32,
        /// p of "the shape fits".
        p: f64,
    },
    /// One point for each load: too few runs of residuals of one sign (weak with few loads).
    Runs {
        /// Runs seen.
        runs: u32,
        /// Runs expected of residuals in random order.
        expected: f64,
        /// p of "the shape fits", one-sided.
        p: f64,
    },
    /// Nothing to test with.
    NotTested {
        /// Why.
        reason: String,
    },
}

impl FitTest {
    /// p of "the shape fits".
    pub fn p(&self) -> Option<f64> {
        match self {
            FitTest::LackOfFit { p, .. } | FitTest::Runs { p, .. } => Some(*p),
            FitTest::NotTested { .. } => None,
        }
    }

    /// True if the shape is rejected at 5 %. False also where nothing could be tested.
    pub fn rejects(&self) -> bool {
        self.p().is_some_and(|p| p <= ALPHA)
    }
}

/// A model fitted to points.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingFit {
    /// The model.
    pub model: Model,
    /// Its coefficients.
    pub coefficients: Vec<Coefficient>,
    /// Degrees of freedom: points less coefficients.
    pub df: u32,
    /// √(Σ w·r² / df), in the unit of throughput when weights are 1.
    pub residual_standard_error: f64,
    /// Akaike's criterion with the correction for few points; only differences between models of
    /// the same points mean something. `None` with too few points or a perfect fit.
    pub aicc: Option<f64>,
    /// Where throughput is largest.
    pub peak: Peak,
    /// The ceiling for growing load: γ/α (Amdahl), 1/s (repairman); for the USL γ/α is what contention
    /// alone would allow, not reached when β > 0. `None` without a ceiling.
    pub limit: Option<Bounds>,
    /// Whether the shape fits.
    pub test: FitTest,
    /// Predictions at the points, in their order.
    pub fitted: Vec<f64>,
    /// Throughput less prediction at the points, in their order.
    pub residuals: Vec<f64>,
    parameters: Vec<f64>,
}

impl ScalingFit {
    /// The coefficient of a name.
    pub fn coefficient(&self, name: &str) -> Option<&Coefficient> {
        self.coefficients.iter().find(|c| c.name == name)
    }

    /// The fitted law, for a USL or Amdahl fit.
    pub fn usl(&self) -> Option<Usl> {
        let p = &self.parameters;
        match self.model {
            Model::Usl => Some(Usl { alpha: p[0], beta: p[1], gamma: p[2] }),
            Model::Amdahl => Some(Usl { alpha: p[0], beta: 0.0, gamma: p[1] }),
            Model::Repairman => None,
        }
    }

    /// The fitted queue, for a machine repairman fit.
    pub fn repairman(&self) -> Option<Repairman> {
        (self.model == Model::Repairman)
            .then(|| Repairman { service_s: self.parameters[0], think_s: self.parameters[1] })
    }

    /// Throughput predicted at a load; `None` for loads that are not above zero or not computed.
    pub fn predict(&self, load: f64) -> Option<f64> {
        if !(load.is_finite() && load > 0.0) {
            return None;
        }
        fit::predictions(self.model, &self.parameters, &[load]).map(|x| x[0]).filter(|x| x.is_finite())
    }

    fn is_sound(&self) -> bool {
        let coefficient = |c: &Coefficient| [c.value, c.standard_error, c.low, c.high].iter().all(|v| v.is_finite());
        self.coefficients.iter().all(coefficient)
            && self.residual_standard_error.is_finite()
            && self.fitted.iter().all(|v| v.is_finite())
            && self.residuals.iter().all(|v| v.is_finite())
            && self.limit.is_none_or(|l| l.value.is_finite())
    }
}

/// Fits a model.
///
/// # Errors
/// With numbers that are none, fewer points than coefficients and one more, fewer different loads
/// than coefficients, or points that do not determine the coefficients.
pub fn fit_model(model: Model, points: &[LoadPoint]) -> Result<ScalingFit, NoEstimate> {
    fit::fit(model, points)
}

/// Two models that predict differently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disagreement {
    /// The load.
    pub load: f64,
    /// The model that predicts least there.
    pub lowest: Model,
    /// Its throughput.
    pub low: f64,
    /// The model that predicts most there.
    pub highest: Model,
    /// Its throughput.
    pub high: f64,
    /// high/low − 1, as a share.
    pub relative: f64,
}

/// All models fitted to the same points.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Each model with its fit, or why it has none.
    pub fits: Vec<(Model, Result<ScalingFit, NoEstimate>)>,
    /// The model with the smallest AICc, and by how much the next one is larger (below 2: as good).
    pub best: Option<(Model, f64)>,
    /// The largest disagreement at twice the largest measured load.
    pub at_twice_largest_load: Option<Disagreement>,
}

impl Comparison {
    /// The fit of a model.
    pub fn fit(&self, model: Model) -> Option<&ScalingFit> {
        self.fits.iter().find(|(m, _)| *m == model).and_then(|(_, fit)| fit.as_ref().ok())
    }

    /// The models that predict least and most at a load; `None` when fewer than two predict.
    pub fn disagreement(&self, load: f64) -> Option<Disagreement> {
        let mut predicted: Vec<(f64, Model)> = Vec::new();
        for (model, fit) in &self.fits {
            if let Some(x) = fit.as_ref().ok().and_then(|f| f.predict(load)) {
                predicted.push((x, *model));
            }
        }
        predicted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (&(low, lowest), &(high, highest)) = (predicted.first()?, predicted.last()?);
        let relative = high / low - 1.0;
        if predicted.len() < 2 || !relative.is_finite() {
            return None;
        }
        Some(Disagreement { load, lowest, low, highest, high, relative })
    }
}

/// Fits all models to the same points.
///
/// # Errors
/// When no model can be fitted; the reason is that of the USL.
pub fn compare_models(points: &[LoadPoint]) -> Result<Comparison, NoEstimate> {
    let fits: Vec<(Model, Result<ScalingFit, NoEstimate>)> =
        Model::ALL.iter().map(|m| (*m, fit_model(*m, points))).collect();
    let mut ranked: Vec<(f64, Model)> = Vec::new();
    for (model, fit) in &fits {
        if let Some(aicc) = fit.as_ref().ok().and_then(|f| f.aicc) {
            ranked.push((aicc, *model));
        }
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let best = match ranked[..] {
        [(first, model), (second, _), ..] => Some((model, second - first)),
        _ => None,
    };
    if let [(_, Err(why)), (_, Err(_)), (_, Err(_))] = &fits[..] {
        return Err(why.clone());
    }
    let largest = points.iter().map(|p| p.load).fold(0.0, f64::max);
    let mut comparison = Comparison { fits, best, at_twice_largest_load: None };
    comparison.at_twice_largest_load = comparison.disagreement(2.0 * largest);
    Ok(comparison)
}
