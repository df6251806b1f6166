//! Scales, the places of their marks, and what stands beside these.

/// From values to places. What is outside is drawn at the end.
pub(super) struct Scale {
    is_log: bool,
    domain: (f64, f64),
    range: (f64, f64),
}

impl Scale {
    pub(super) fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        Scale { is_log: false, domain, range }
    }

    /// For values above zero.
    pub(super) fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        Scale { is_log: true, domain: (domain.0.max(f64::MIN_POSITIVE), domain.1.max(f64::MIN_POSITIVE)), range }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let of = |v: f64| if self.is_log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (low, high) = (of(self.domain.0), of(self.domain.1));
        let share = if high > low { ((of(value) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }
}

/// The smallest and the largest of some values.
pub(super) fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|v| v.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    (low <= high).then_some((low, high))
}

/// About five places from zero to a value or beyond it, 1, 2 or 5 times a power of ten apart.
pub(super) fn linear_ticks(high: f64) -> Vec<f64> {
    if high <= 0.0 || !high.is_finite() {
        return vec![0.0];
    }
    let rough = high / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= rough * 0.999).unwrap_or(power);
    let count = (high / step - 1e-9).ceil();
    (0..=count as u32).map(|i| f64::from(i) * step).collect()
}

/// Places on a logarithmic axis of values: 1, 2, 5 where there is room, else powers of ten.
pub(super) fn log_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let decades = (high / low).log10();
    let steps: &[f64] = match decades {
        d if d <= 1.7 => &[1.0, 2.0, 5.0],
        d if d <= 2.4 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
    all.filter(|t| *t >= low && *t <= high).collect()
}

/// Places on a logarithmic axis of ratios.
pub(super) fn ratio_ticks((low, high): (f64, f64)) -> Vec<f64> {
    let ticks: &[f64] = match high / low {
        s if s >= 1e3 => return log_ticks((low, high)),
        s if s < 1.25 => &[0.9, 0.92, 0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06, 1.08, 1.1],
        s if s < 4.0 => &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0],
        _ => &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
    };
    ticks.iter().copied().filter(|t| *t >= low && *t <= high).collect()
}

/// Without the places whose texts have no room, `text` px each; the last one stays.
pub(super) fn spaced(ticks: &[f64], room: f64, text: f64) -> Vec<f64> {
    let every = ((ticks.len() as f64 * text) / room).ceil().max(1.0) as usize;
    ticks.iter().enumerate().filter(|(i, _)| (ticks.len() - 1 - i).is_multiple_of(every)).map(|(_, t)| *t).collect()
}

/// A number of at most four digits, as short as it can be.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number on an axis.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{}G", short(value / 1e9)),
        v if v >= 1e6 => format!("{}M", short(value / 1e6)),
        v if v >= 1e3 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

/// A time on an axis, from ns.
pub(super) fn time(ns: f64) -> String {
    match ns.abs() {
        0.0 => "0".to_owned(),
        v if v >= 1e9 => format!("{} s", short(ns / 1e9)),
        v if v >= 1e6 => format!("{} ms", short(ns / 1e6)),
        v if v >= 1e3 => format!("{} µs", short(ns / 1e3)),
        _ => format!("{} ns", short(ns)),
    }
}

/// A ratio on an axis.
pub(super) fn ratio(value: f64) -> String {
    format!("×{}", number(value))
}

/// A share with a percent sign.
pub(super) fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "<0.1 %".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_where_a_reader_expects_them() {
        assert_eq!(linear_ticks(9.3), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(0.0), [0.0]);
        assert_eq!(log_ticks((900.0, 21_000.0)), [1e3, 2e3, 5e3, 1e4, 2e4]);
        assert_eq!(ratio_ticks((0.95, 1.05)), [0.96, 0.98, 1.0, 1.02, 1.04]);
        assert_eq!(spaced(&[1.0, 2.0, 3.0, 4.0], 100.0, 40.0), [2.0, 4.0]);
        assert_eq!([time(1500.0), number(98_560.0), ratio(1.25)], ["1.5 µs", "98.56k", "×1.25"]);
    }

    #[test]
    fn what_is_outside_is_drawn_at_the_end() {
        let scale = Scale::log((1.0, 100.0), (0.0, 10.0));
        assert_eq!([scale.at(10.0).round(), scale.at(1e6), scale.at(-1.0)], [5.0, 10.0, 0.0]);
        assert_eq!(Scale::linear((2.0, 2.0), (0.0, 10.0)).at(2.0), 5.0);
    }
}
