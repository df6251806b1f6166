//! One model fitted to points.

use super::least_squares::{Minimum, Problem, dot, inverse_normal};
use super::profile;
use super::repairman::{MAX_CLIENTS, Repairman};
use super::usl::Usl;
use super::{Coefficient, FitTest, LoadPoint, Model, ScalingFit};
use crate::pieces::count;
use crate::{CONFIDENCE, NoEstimate, students_t};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use std::collections::BTreeMap;

/// Points in a form that arithmetic can hold: throughput in units of its largest value, weights in
/// units of the largest weight.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) loads: Vec<f64>,
    pub(super) y: Vec<f64>,
    /// Square roots of the weights, by which residuals are multiplied.
    pub(super) root_weights: Vec<f64>,
    pub(super) y_unit: f64,
    weight_unit: f64,
    pub(super) most_load: f64,
    distinct_loads: usize,
}

impl Data {
    pub(super) fn new(points: &[LoadPoint]) -> Result<Data, NoEstimate> {
        if points.is_empty() {
            return Err(NoEstimate::new("no point"));
        }
        for p in points {
            if !(p.load.is_finite() && p.load >= 1e-6 && p.load <= 1e9) {
                return Err(NoEstimate::new("a load is not a number between a millionth and a billion"));
            }
            if !(p.throughput.is_finite() && p.throughput >= 0.0) {
                return Err(NoEstimate::new("a throughput is negative or not a number"));
            }
            if !(p.weight.is_finite() && p.weight > 0.0) {
                return Err(NoEstimate::new("a weight is not a number above zero"));
            }
        }
        let most = |of: fn(&LoadPoint) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let (y_unit, weight_unit) = (most(|p| p.throughput), most(|p| p.weight));
        if !(1e-200..=1e200).contains(&y_unit) || !(1e-200..=1e200).contains(&weight_unit) {
            return Err(NoEstimate::new("all throughputs are zero, or they or the weights too large for arithmetic"));
        }
        let mut loads: Vec<f64> = points.iter().map(|p| p.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        Ok(Data {
            loads: points.iter().map(|p| p.load).collect(),
            y: points.iter().map(|p| p.throughput / y_unit).collect(),
            root_weights: points.iter().map(|p| (p.weight / weight_unit).sqrt()).collect(),
            y_unit,
            weight_unit,
            most_load: most(|p| p.load),
            distinct_loads: loads.len(),
        })
    }

    pub(super) fn n(&self) -> usize {
        self.y.len()
    }

    /// Writes the weighted residuals of a model at parameters in scaled units.
    pub(super) fn residuals(&self, model: Model, at: &[f64], into: &mut Vec<f64>) -> bool {
        let Some(values) = predictions(model, at, &self.loads) else { return false };
        into.clear();
        into.extend(values.iter().zip(&self.y).zip(&self.root_weights).map(|((v, y), w)| (v - y) * w));
        true
    }

    /// What a parameter of one is in the user's unit.
    fn units(&self, model: Model) -> Vec<f64> {
        match model {
            Model::Usl => vec![1.0, 1.0, self.y_unit],
            Model::Amdahl => vec![1.0, self.y_unit],
            Model::Repairman => vec![1.0 / self.y_unit; 2],
        }
    }
}

/// Predictions at several loads; `None` where one of them has no value.
pub(super) fn predictions(model: Model, at: &[f64], loads: &[f64]) -> Option<Vec<f64>> {
    match model {
        Model::Usl => {
            let usl = Usl { alpha: at[0], beta: at[1], gamma: at[2] };
            loads.iter().map(|n| usl.throughput(*n)).collect()
        }
        Model::Amdahl => {
            let usl = Usl { alpha: at[0], beta: 0.0, gamma: at[1] };
            loads.iter().map(|n| usl.throughput(*n)).collect()
        }
        Model::Repairman => Repairman { service_s: at[0], think_s: at[1] }.throughputs(loads),
    }
}

/// Starting values: a coarse grid over the parameters that make the shape, each with the scale that
/// suits it best, which has a closed form. The best three, because the first may lead to a bound.
fn starts(model: Model, data: &Data) -> Vec<Vec<f64>> {
    let most = data.most_load.max(1.0);
    let mut shapes: Vec<Vec<f64>> = Vec::new();
    let alphas = [0.0, 0.03 / most, 0.3 / most, 1.0 / most, 3.0 / most, 0.03, 0.1, 0.3, 0.9];
    match model {
        Model::Usl => {
            let betas = [0.0, 0.1, 0.5, 2.0, 10.0, 100.0].map(|b| b / most / most);
            shapes.extend(alphas.iter().flat_map(|a| betas.map(|b| vec![*a, b, 1.0])));
        }
        Model::Amdahl => shapes.extend(alphas.iter().map(|a| vec![*a, 1.0])),
        Model::Repairman => {
            shapes.extend((0..14).map(|i| vec![1.0, 0.2 * most * 2.0_f64.powi(4 - i)]));
        }
    }
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    for mut shape in shapes {
        let Some(values) = predictions(model, &shape, &data.loads) else { continue };
        let weighted: Vec<f64> = values.iter().zip(&data.root_weights).map(|(v, w)| v * w).collect();
        let wanted: Vec<f64> = data.y.iter().zip(&data.root_weights).map(|(y, w)| y * w).collect();
        let scale = dot(&weighted, &wanted) / dot(&weighted, &weighted);
        if !(scale.is_finite() && scale > 0.0) {
            continue;
        }
        let rss: f64 = weighted.iter().zip(&wanted).map(|(v, y)| (scale * v - y).powi(2)).sum();
        match model {
            Model::Usl | Model::Amdahl => *shape.last_mut().unwrap_or(&mut 0.0) = scale,
            Model::Repairman => shape.iter_mut().for_each(|t| *t /= scale),
        }
        found.push((rss, shape));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().take(3).map(|(_, shape)| shape).collect()
}

fn parameter_scales(model: Model, data: &Data) -> Vec<f64> {
    let most = data.most_load.max(1.0);
    match model {
        Model::Usl => vec![0.1 / most, 0.1 / most / most, 1e-3],
        Model::Amdahl => vec![0.1 / most, 1e-3],
        Model::Repairman => vec![1e-3, 1e-3],
    }
}

fn minimum(model: Model, data: &Data) -> Option<Minimum> {
    let lower = vec![0.0; model.parameters()];
    let scale = parameter_scales(model, data);
    let residuals = |at: &[f64], into: &mut Vec<f64>| data.residuals(model, at, into);
    let problem = Problem { residuals: &residuals, lower: &lower, scale: &scale, tolerance: 1e-15 };
    let mut best: Option<Minimum> = None;
    for start in starts(model, data) {
        if let Some(m) = problem.minimise(&start)
            && best.as_ref().is_none_or(|b| m.rss < b.rss)
        {
            best = Some(m);
        }
    }
    best
}

fn check_counts(model: Model, data: &Data) -> Result<(), NoEstimate> {
    let (n, p) = (data.n(), model.parameters());
    if n <= p {
        return Err(NoEstimate::new(format!("{n} points are too few for {p} coefficients: {} are needed", p + 1)));
    }
    if data.distinct_loads < p {
        return Err(NoEstimate::new(format!("{} different loads cannot give {p} coefficients", data.distinct_loads)));
    }
    if model == Model::Repairman && data.most_load > MAX_CLIENTS {
        return Err(NoEstimate::new("the machine repairman is computed for up to 100000 clients"));
    }
    Ok(())
}

pub(super) fn fit(model: Model, points: &[LoadPoint]) -> Result<ScalingFit, NoEstimate> {
    let data = Data::new(points)?;
    check_counts(model, &data)?;
    let undetermined = || NoEstimate::new("the points do not determine the coefficients of this model");
    let found = minimum(model, &data).ok_or_else(undetermined)?;
    let mut inverse = inverse_normal(&found.jacobian).ok_or_else(undetermined)?;
    let df = (data.n() - model.parameters()) as f64;
    let t = students_t::quantile(0.5 + CONFIDENCE / 2.0, df).ok_or_else(undetermined)?;
    let variance = found.rss / df;
    let units = data.units(model);
    for (i, row) in inverse.iter_mut().enumerate() {
        for (j, v) in row.iter_mut().enumerate() {
            *v *= variance * units[i] * units[j];
        }
    }
    let parameters: Vec<f64> = found.at.iter().zip(&units).map(|(a, u)| a * u).collect();
    let coefficients = coefficients(model, &parameters, &inverse, t);
    let fitted = predictions(model, &found.at, &data.loads).ok_or_else(undetermined)?;
    let fitted: Vec<f64> = fitted.iter().map(|v| v * data.y_unit).collect();
    let residuals: Vec<f64> = points.iter().zip(&fitted).map(|(p, f)| p.throughput - f).collect();
    let reach = profile::Reach::new(model, &data, &found, t, &coefficients);
    let answer = ScalingFit {
        model,
        df: count(data.n() - model.parameters()),
        residual_standard_error: variance.sqrt() * data.y_unit * data.weight_unit.sqrt(),
        aicc: aicc(&data, model, found.rss),
        peak: reach.peak(),
        limit: reach.limit(),
        test: test(model, &data, &found),
        coefficients,
        fitted,
        residuals,
        parameters,
    };
    if answer.is_sound() { Ok(answer) } else { Err(NoEstimate::new("the fit is wider than numbers can hold")) }
}

fn coefficients(model: Model, values: &[f64], covariance: &[Vec<f64>], t: f64) -> Vec<Coefficient> {
    let names: &[&'static str] = match model {
        Model::Usl => &["alpha", "beta", "gamma"],
        Model::Amdahl => &["alpha", "gamma"],
        Model::Repairman => &["service_s", "think_s"],
    };
    let each = names.iter().zip(values).enumerate();
    each.map(|(i, (name, value))| {
        let standard_error = covariance[i][i].max(0.0).sqrt();
        Coefficient {
            name,
            value: *value,
            standard_error,
            low: value - t * standard_error,
            high: value + t * standard_error,
        }
    })
    .collect()
}

/// n·ln(RSS/n) + 2k + 2k(k + 1)/(n − k − 1), k counting the residual variance too (Hurvich and Tsai 1989).
fn aicc(data: &Data, model: Model, rss: f64) -> Option<f64> {
    let (n, k) = (data.n() as f64, (model.parameters() + 1) as f64);
    if n - k - 1.0 <= 0.0 || rss <= 1e-28 * n {
        return None;
    }
    Some(n * (rss / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0)).filter(|a| a.is_finite())
}

/// Whether the shape fits: against the spread of replicates where there are some, else by runs of signs.
fn test(model: Model, data: &Data, found: &Minimum) -> FitTest {
    if found.rss <= 1e-24 * data.n() as f64 {
        return FitTest::NotTested { reason: "the model goes through all points".to_owned() };
    }
    let mut groups: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (i, load) in data.loads.iter().enumerate() {
        // Bits of positive numbers are in the order of the numbers.
        groups.entry(load.to_bits()).or_default().push(i);
    }
    if groups.len() < data.n() {
        return lack_of_fit(model, data, found.rss, &groups);
    }
    let mut signs = Vec::with_capacity(data.n());
    let mut residuals = Vec::new();
    if !data.residuals(model, &found.at, &mut residuals) {
        return FitTest::NotTested { reason: "the model has no value at a load".to_owned() };
    }
    for i in groups.into_values().flatten() {
        if residuals[i] != 0.0 {
            signs.push(residuals[i] > 0.0);
        }
    }
    runs(&signs)
}

/// The lack-of-fit F test (Fisher 1922): what the model leaves between loads against what is left within them.
fn lack_of_fit(model: Model, data: &Data, rss: f64, groups: &BTreeMap<u64, Vec<usize>>) -> FitTest {
    let mut pure = 0.0;
    for group in groups.values() {
        let weight = |i: &usize| data.root_weights[*i] * data.root_weights[*i];
        let total: f64 = group.iter().map(weight).sum();
        let mean = group.iter().map(|i| weight(i) * data.y[*i]).sum::<f64>() / total;
        pure += group.iter().map(|i| weight(i) * (data.y[*i] - mean).powi(2)).sum::<f64>();
    }
    let (loads, parameters) = (groups.len(), model.parameters());
    if loads <= parameters {
        return FitTest::NotTested { reason: "as many coefficients as loads fit any shape".to_owned() };
    }
    let (df_model, df_error) = (loads - parameters, data.n() - loads);
    let f = ((rss - pure) / df_model as f64).max(0.0) / (pure / df_error as f64);
    let p = FisherSnedecor::new(df_model as f64, df_error as f64).ok().map(|d| d.sf(f));
    match p {
        Some(p) if f.is_finite() && p.is_finite() => {
            FitTest::LackOfFit { f, df_model: count(df_model), df_error: count(df_error), p: p.clamp(0.0, 1.0) }
        }
        _ => FitTest::NotTested {
            reason: "repeats of a load are all the same, so there is no noise to test against".to_owned(),
        },
    }
}

/// The runs test (Wald and Wolfowitz 1940), exact and one-sided: too few runs of one sign.
fn runs(signs: &[bool]) -> FitTest {
    let above = signs.iter().filter(|s| **s).count();
    let below = signs.len() - above;
    let most = 1000;
    if above == 0 || below == 0 || signs.len() < 6 || signs.len() > most {
        return FitTest::NotTested { reason: "too few points, or too many, for a test of runs".to_owned() };
    }
    let seen = 1 + signs.windows(2).filter(|w| w[0] != w[1]).count();
    let all = log_choose(signs.len(), above);
    let of = |r: usize| {
        let half = r / 2;
        let ways = |a: usize, b: usize| (log_choose(above - 1, a) + log_choose(below - 1, b) - all).exp();
        if r.is_multiple_of(2) { 2.0 * ways(half - 1, half - 1) } else { ways(half - 1, half) + ways(half, half - 1) }
    };
    let p: f64 = (2..=seen).map(of).sum();
    let expected = 1.0 + 2.0 * above as f64 * below as f64 / signs.len() as f64;
    FitTest::Runs { runs: count(seen), expected, p: p.clamp(0.0, 1.0) }
}

fn log_choose(n: usize, k: usize) -> f64 {
    if k > n { f64::NEG_INFINITY } else { (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum() }
}
