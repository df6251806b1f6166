//! Least squares for a handful of parameters (Levenberg 1944, Marquardt 1963), with lower bounds.

/// More steps than this are not taken; a fit of three parameters takes about ten.
const MAX_STEPS: usize = 200;

/// What is minimised: the sum of the squares that `residuals` writes.
pub(super) struct Problem<'a> {
    /// Writes the (weighted) residuals at the parameters; false where the model has no value.
    pub(super) residuals: &'a dyn Fn(&[f64], &mut Vec<f64>) -> bool,
    /// The smallest value that each parameter may take.
    pub(super) lower: &'a [f64],
    /// A size of each parameter that matters, from which the steps of derivatives are made.
    pub(super) scale: &'a [f64],
    /// A step that lowers the sum by a smaller share than this is the last one.
    pub(super) tolerance: f64,
}

/// Where the sum of squares is smallest.
#[derive(Debug, Clone)]
pub(super) struct Minimum {
    pub(super) at: Vec<f64>,
    pub(super) rss: f64,
    /// One row for each parameter: derivatives of all residuals.
    pub(super) jacobian: Vec<Vec<f64>>,
}

impl Problem<'_> {
    fn rss(&self, at: &[f64], into: &mut Vec<f64>) -> Option<f64> {
        into.clear();
        if !(self.residuals)(at, into) {
            return None;
        }
        let sum: f64 = into.iter().map(|r| r * r).sum();
        sum.is_finite().then_some(sum)
    }

    /// Central differences. They may step a little below a bound, where the models are still smooth;
    /// where the model has no value there, the difference is one-sided.
    fn jacobian(&self, at: &[f64], here: &[f64]) -> Option<Vec<Vec<f64>>> {
        let mut rows = Vec::with_capacity(at.len());
        let (mut up, mut down, mut moved) = (Vec::new(), Vec::new(), at.to_vec());
        for i in 0..at.len() {
            let h = 1e-5 * at[i].abs().max(self.scale[i]);
            moved[i] = at[i] + h;
            let has_up = self.rss(&moved, &mut up).is_some();
            let high = if has_up { moved[i] } else { at[i] };
            moved[i] = at[i] - h;
            let has_down = self.rss(&moved, &mut down).is_some();
            let low = if has_down { moved[i] } else { at[i] };
            moved[i] = at[i];
            let width = high - low;
            if width.is_nan() || width <= 0.0 {
                return None;
            }
            let above: &[f64] = if has_up { &up } else { here };
            let below: &[f64] = if has_down { &down } else { here };
            rows.push(above.iter().zip(below).map(|(a, b)| (a - b) / width).collect());
        }
        Some(rows)
    }

    /// The minimum nearest to a start. `None` where the model has no value at the start.
    pub(super) fn minimise(&self, start: &[f64]) -> Option<Minimum> {
        let mut at: Vec<f64> = start.iter().zip(self.lower).map(|(s, l)| s.max(*l)).collect();
        let (mut here, mut there) = (Vec::new(), Vec::new());
        let mut rss = self.rss(&at, &mut here)?;
        let mut jacobian = self.jacobian(&at, &here)?;
        let mut damping = 1e-3;
        for _ in 0..MAX_STEPS {
            let gradient: Vec<f64> = jacobian.iter().map(|row| dot(row, &here)).collect();
            let free: Vec<bool> = (0..at.len()).map(|i| at[i] > self.lower[i] || gradient[i] < 0.0).collect();
            let Some(next) = self.step(&at, &jacobian, &gradient, &free, damping) else { break };
            let moved = (0..at.len()).any(|i| (next[i] - at[i]).abs() > 1e-11 * at[i].abs().max(1e-3 * self.scale[i]));
            let mut still = false;
            let better = self.rss(&next, &mut there).filter(|r| *r <= rss);
            match better {
                Some(lower) => {
                    still = rss - lower <= self.tolerance * rss;
                    at = next;
                    rss = lower;
                    std::mem::swap(&mut here, &mut there);
                    jacobian = self.jacobian(&at, &here)?;
                    damping = (damping / 10.0).max(1e-12);
                }
                None => damping *= 10.0,
            }
            if !moved || still || damping > 1e12 {
                break;
            }
        }
        Some(Minimum { at, rss, jacobian })
    }

    /// The parameters after one damped step; parameters held at their bound stay.
    fn step(&self, at: &[f64], jac: &[Vec<f64>], gradient: &[f64], free: &[bool], damping: f64) -> Option<Vec<f64>> {
        let open: Vec<usize> = (0..at.len()).filter(|&i| free[i]).collect();
        let normal: Vec<Vec<f64>> = open
            .iter()
            .map(|&i| open.iter().map(|&j| dot(&jac[i], &jac[j]) * if i == j { 1.0 + damping } else { 1.0 }).collect())
            .collect();
        let inverse = invert(&normal)?;
        let mut next = at.to_vec();
        for (row, &i) in inverse.iter().zip(&open) {
            let change: f64 = row.iter().zip(&open).map(|(v, &j)| v * gradient[j]).sum();
            next[i] = (at[i] - change).max(self.lower[i]);
        }
        next.iter().all(|v| v.is_finite()).then_some(next)
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// (JᵀJ)⁻¹, which is the covariance of the parameters but for the residual variance.
pub(super) fn inverse_normal(jacobian: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let normal: Vec<Vec<f64>> = jacobian.iter().map(|a| jacobian.iter().map(|b| dot(a, b)).collect()).collect();
    invert(&normal)
}

/// The inverse of a symmetric positive matrix, scaled to a unit diagonal first because parameters
/// differ by many orders of magnitude. `None` when it has none that rounding leaves meaningful.
fn invert(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let size: Vec<f64> = (0..n).map(|i| matrix[i][i].sqrt()).collect();
    if size.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
        return None;
    }
    // Gauss–Jordan beside the unit matrix.
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let left = (0..n).map(|j| matrix[i][j] / size[i] / size[j]);
            left.chain((0..n).map(|j| if i == j { 1.0 } else { 0.0 })).collect()
        })
        .collect();
    for column in 0..n {
        let pivot_row =
            (column..n).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs())).unwrap_or(column);
        rows.swap(column, pivot_row);
        let pivot = rows[column][column];
        if pivot.is_nan() || pivot.abs() <= 1e-13 {
            return None;
        }
        rows[column].iter_mut().for_each(|v| *v /= pivot);
        let unit = rows[column].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = if i == column { 0.0 } else { row[column] };
            row.iter_mut().zip(&unit).for_each(|(v, u)| *v -= factor * u);
        }
    }
    let inverse: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| rows[i][n + j] / size[i] / size[j]).collect()).collect();
    inverse.iter().flatten().all(|v| v.is_finite()).then_some(inverse)
}
