//! The picture of what an event of the simulator costs on machines of any size, from the CSV of
//! `cargo bench -p holdup-sim --bench machine -- --curve`.

use anyhow::{Context as _, Result, ensure};
use std::fmt::Write as _;

/// Machines that differ in their CPUs alone, or in tasks with them.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What their tasks are.
    pub name: String,
    /// The binary logarithm of the number of CPUs, and ns for an event.
    pub points: Vec<(f64, f64)>,
}

/// A line through a series: cost by the logarithm of the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// What it says of one CPU, ns.
    pub at_one: f64,
    /// What each doubling of the CPUs adds, ns.
    pub per_doubling: f64,
    /// What the same line says of the upper half of the points, ns for each doubling.
    pub per_doubling_above: f64,
    /// The greatest distance of a point from it, ns.
    pub worst: f64,
}

/// The series of a CSV, each with its medians.
///
/// # Errors
/// When a line is not as the bench writes it.
pub fn read(csv: &str) -> Result<Vec<Series>> {
    let mut all: Vec<Series> = Vec::new();
    for line in csv.lines().skip(1).filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        ensure!(fields.len() == 5, "{line}: 5 fields are needed");
        let number = |field: usize| fields[field].parse::<f64>().with_context(|| format!("{line}: field {field}"));
        let point = (number(1)?.log2(), number(3)?);
        match all.iter_mut().find(|series| series.name == fields[0]) {
            Some(series) => series.points.push(point),
            None => all.push(Series { name: fields[0].to_owned(), points: vec![point] }),
        }
    }
    ensure!(all.iter().all(|series| series.points.len() > 3), "each series needs at least 4 points");
    ensure!(!all.is_empty(), "there is no series");
    Ok(all)
}

/// Offset and slope of the line of least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let slope = holdup_stats::slope(&x, &y);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    (mean(&y) - slope * mean(&x), slope)
}

impl Series {
    /// The line through it.
    pub fn fit(&self) -> Fit {
        let (at_one, per_doubling) = line(&self.points);
        let worst = self.points.iter().map(|p| (p.1 - at_one - per_doubling * p.0).abs()).fold(0.0, f64::max);
        Fit { at_one, per_doubling, per_doubling_above: line(&self.points[self.points.len() / 2..]).1, worst }
    }

    /// Its fit, in words.
    pub fn says(&self) -> String {
        let fit = self.fit();
        format!(
            "{}: {:.0} ns + {:.1} ns for each doubling of the CPUs (upper half {:.1}), no point further than {:.0} ns from that",
            self.name, fit.at_one, fit.per_doubling, fit.per_doubling_above, fit.worst
        )
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 310.0;
const TOP: f64 = 40.0;
/// Colours that stay distinct for colour-blind readers.
const COLOURS: [&str; 4] = ["#4269d0", "#d1660a", "#3a7d44", "#9c3d8f"];

/// The picture: points, and the line of each fit.
pub fn draw(all: &[Series]) -> String {
    let points = || all.iter().flat_map(|series| &series.points);
    let most_x = points().map(|p| p.0).fold(1.0, f64::max);
    let step = 100.0;
    let most_y = (points().map(|p| p.1).fold(step, f64::max) / step).ceil() * step;
    let x = |doublings: f64| LEFT + (WIDTH - LEFT - 30.0) * doublings / most_x;
    let y = |ns: f64| BOTTOM - (BOTTOM - TOP) * ns / most_y;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Cost of an event of the simulator over the number of CPUs</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut add = |piece: String| writeln!(svg, "{piece}").expect("writing into a string cannot fail");
    for tick in 0..=(most_y / step) as u32 {
        let (ns, at) = (f64::from(tick) * step, y(f64::from(tick) * step));
        add(format!("<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/>", x(most_x)));
        add(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{ns}</text>", LEFT - 8.0, at + 4.0));
    }
    for doublings in 1..=most_x as u32 {
        let (cpus, at) = (1u64 << doublings, x(f64::from(doublings)));
        add(format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{cpus}</text>", BOTTOM + 18.0));
    }
    add(format!("<text x=\"{LEFT}\" y=\"16\">ns of CPU time for an event</text>"));
    add(format!(
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">CPUs of the simulated machine</text>",
        x(most_x),
        BOTTOM + 38.0
    ));
    for (number, series) in all.iter().enumerate() {
        let (colour, fit) = (COLOURS[number % COLOURS.len()], series.fit());
        let at = |doublings: f64| y(fit.at_one + fit.per_doubling * doublings);
        let (from, to) = (series.points[0].0, series.points[series.points.len() - 1].0);
        let ends = format!("M{:.1} {:.1}L{:.1} {:.1}", x(from), at(from), x(to), at(to));
        add(format!("<path d=\"{ends}\" stroke=\"{colour}\" stroke-dasharray=\"5 4\"/>"));
        for (doublings, ns) in &series.points {
            add(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/>", x(*doublings), y(*ns)));
        }
        let words = format!("{} ({:+.0} ns for each doubling)", series.name, fit.per_doubling);
        let row = 16.0 + 16.0 * number as f64;
        add(format!("<text x=\"{:.1}\" y=\"{row}\" text-anchor=\"end\" fill=\"{colour}\">{words}</text>", x(most_x)));
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(cost: impl Fn(f64) -> f64) -> String {
        let rows = (1..=10).map(|n| format!("few,{},8,{},1.0\n", 1 << n, cost(f64::from(n))));
        std::iter::once("head\n".to_owned()).chain(rows).collect()
    }

    #[test]
    fn a_logarithm_is_a_line() {
        let all = read(&csv(|n| 100.0 + 20.0 * n)).expect("a series");
        let fit = all[0].fit();
        assert!((fit.at_one - 100.0).abs() < 1e-9 && (fit.per_doubling - 20.0).abs() < 1e-9, "{fit:?}");
        assert!(fit.worst < 1e-9 && (fit.per_doubling_above - 20.0).abs() < 1e-9, "{fit:?}");
        assert_eq!(draw(&all).matches("<circle").count(), 10);
    }

    #[test]
    fn what_grows_faster_shows_above() {
        let fit = read(&csv(|n| 100.0 + n * n)).expect("a series")[0].fit();
        assert!(fit.per_doubling_above > fit.per_doubling + 2.0, "{fit:?}");
    }

    #[test]
    fn a_line_that_no_bench_wrote_is_refused() {
        assert!(read("head\nfew,2,8\n").is_err());
        assert!(read("head\nfew,two,8,1.0,1.0\n").is_err());
        assert!(read("head\n").is_err());
    }
}
