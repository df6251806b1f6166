//! Pictures of searches: SVG without a script.

use crate::text;

/// The width of a picture, the height of one of values, and what edges take.
pub(crate) const WIDTH: f64 = 960.0;
pub(crate) const HEIGHT: f64 = 320.0;
pub(crate) const LEFT: f64 = 70.0;
pub(crate) const BELOW: f64 = 26.0;
/// Room above.
const ABOVE: f64 = 6.0;

/// A text within SVG.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A logarithmic axis from below to above, for a picture of [`HEIGHT`].
pub(crate) struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// The axis on which all values have room; `None` without a value above zero.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Axis> {
        let ends = values.filter(|v| *v > 0.0).map(f64::ln);
        let (low, high) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
        let margin = (high - low).max(1e-3) * 0.05;
        low.is_finite().then_some(Axis { low: low - margin, high: high + margin })
    }

    /// Where a value stands.
    pub(crate) fn y(&self, value: f64) -> f64 {
        ABOVE + (self.high - value.ln()) / (self.high - self.low) * (HEIGHT - BELOW - ABOVE)
    }

    /// Five lines with their values, up to `right` from the right edge.
    pub(crate) fn lines(&self, right: f64) -> String {
        let line = |i: i32| {
            let value = (self.low + (self.high - self.low) * f64::from(i) / 4.0).exp();
            let (at, label) = (self.y(value), text::number(value));
            format!(
                "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - right,
                LEFT - 6.0,
                at + 4.0
            )
        };
        (0..=4).map(line).collect()
    }
}

/// A trial.
pub(crate) fn point(x: f64, y: f64) -> String {
    format!("<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>")
}
