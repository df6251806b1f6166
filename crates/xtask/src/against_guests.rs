//! `cargo xtask against-guests SIMULATED.holdup GUESTS.holdup`: the same plan simulated and run in guests, side by side.
//!
//! Two things are compared, and neither is a time, because times of an emulated CPU say nothing. *Signs*: whether a level
//! is faster or slower than the baseline, where the guests show a sign beyond noise. *Shares*: of the switch-outs of tasks that
//! could go on, how many were inside the kernel (`R+`) and not at the user boundary (`R`).

use anyhow::{Context, Result, bail};
use holdup_model::outcome::Contrast;
use holdup_model::{Analysis, BundleData, Trial, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// How far a share may be off, in points.
const LIMIT_POINTS: f64 = 10.0;
/// The fewest switch-outs that make a share: its standard error is 3.5 points then at the most.
const FEWEST: f64 = 200.0;

/// A ratio of a level to the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// True if it differs from 1 when all cells are taken together (Holm), as `holdup report` judges it.
    pub is_different: bool,
}

impl Ratio {
    /// True if its own interval leaves 1 out.
    fn is_beyond_noise(self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// Switch-outs of tasks that could go on, over all trials of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outs {
    /// At the user boundary: `R`.
    pub boundary: f64,
    /// In the kernel: `R+`.
    pub inside: f64,
}

impl Outs {
    fn count(self) -> f64 {
        self.boundary + self.inside
    }

    /// The share inside the kernel, in %.
    fn inside_percent(self) -> f64 {
        100.0 * self.inside / self.count()
    }
}

/// What an arm is but for its factor, in words; and the level of that.
pub type Cell = (String, String);

/// What a bundle says of the two things.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// By cell and level.
    pub ratios: BTreeMap<Cell, Ratio>,
    /// By cell and level, the baseline among them.
    pub outs: BTreeMap<Cell, Outs>,
    /// The levels in the plan's order; the first is the baseline.
    pub levels: Vec<String>,
}

/// Reads both bundles and gives the tables as Markdown.
///
/// # Errors
/// When a bundle cannot be read, when its plan has not one factor, or when the two have nothing in common.
pub fn run(simulated: &Path, guests: &Path) -> Result<String> {
    let side = |path: &Path| -> Result<Side> {
        let bundle = holdup_bundle::read(path).map_err(|p| anyhow::anyhow!("{p}"))?;
        side(&bundle, &holdup_analysis::analyse(&bundle)).with_context(|| path.display().to_string())
    };
    tables(&side(simulated)?, &side(guests)?)
}

/// What a bundle says of the two things.
///
/// # Errors
/// When its plan has not one factor.
pub fn side(bundle: &BundleData, analysis: &Analysis) -> Result<Side> {
    let varied: Vec<_> = bundle.plan.factors.iter().filter(|f| f.levels.len() > 1).collect();
    let [factor] = varied.as_slice() else {
        bail!("the plan varies {} factors, and the comparison is of one", varied.len());
    };
    let mut side = Side { levels: factor.levels.iter().map(|l| l.label.clone()).collect(), ..Side::default() };
    for c in analysis.comparisons.iter().filter(|c| c.primary) {
        let (Contrast::Factor { level, .. }, Some(ratio)) = (&c.contrast, &c.ratio) else { continue };
        let is_different = c.verdict == Verdict::Different;
        let ratio = Ratio { value: ratio.value, low: ratio.low, high: ratio.high, is_different };
        // What is pooled has no cell: it is the workload as a whole.
        side.ratios.insert((cell(&c.workload, &c.cell), level.clone()), ratio);
    }
    for arm in bundle.schedule.arms.iter().filter(|arm| arm.replica.is_none()) {
        let Some(level) = arm.factors.get(&factor.name) else { continue };
        let axes = arm.axes.iter().map(|(name, level)| (name.clone(), level.label.clone())).collect();
        let trials = bundle.trials.iter().filter(|t| t.arm == arm.id && t.is_done());
        let outs = trials.map(outs_of).fold(Outs::default(), |sum, more| Outs {
            boundary: sum.boundary + more.boundary,
            inside: sum.inside + more.inside,
        });
        side.outs.insert((cell(&arm.workload, &axes), level.label.clone()), outs);
    }
    Ok(side)
}

/// Switch-outs of the workers, from either collector that counts them.
fn outs_of(trial: &Trial) -> Outs {
    let counters = trial.evidence.iter().find(|c| matches!(c.collector.as_str(), "switch-outs" | "switches"));
    let items: Vec<_> = counters.into_iter().flat_map(|c| &c.items).filter(|i| i.name == "switched_out").collect();
    let of = |end: &str| -> f64 {
        let is_here = |label: &str| label.starts_with("load") && label.ends_with(end);
        let here = items.iter().filter(|i| i.label.as_deref().is_some_and(is_here));
        here.filter_map(|i| i.value.value()).sum()
    };
    Outs { boundary: of("(R)"), inside: of("(R+)") }
}

fn cell(workload: &str, shared: &BTreeMap<String, String>) -> String {
    let words = shared.iter().map(|(name, label)| format!(" {name}={label}"));
    std::iter::once(workload.to_owned()).chain(words).collect()
}

/// Both tables with what they come to.
pub fn tables(simulated: &Side, guests: &Side) -> Result<String> {
    let baseline = guests.levels.first().context("the plan's factor has no levels")?;
    let cells: BTreeSet<&String> = guests.outs.keys().chain(guests.ratios.keys()).map(|(cell, _)| cell).collect();
    if !guests.ratios.keys().any(|place| simulated.ratios.contains_key(place)) {
        bail!("the two bundles have no ratio of the same cell and level: they are not of one plan");
    }
    let mut out = signs(simulated, guests, baseline, &cells);
    out.push('\n');
    out.push_str(&shares(simulated, guests, &cells));
    Ok(out)
}

/// How a simulated ratio stands to a measured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Right,
    Wrong,
    /// The simulator sees no difference.
    None,
}

fn sign(simulated: Ratio, measured: Ratio) -> Sign {
    match (simulated.value > 1.0) == (measured.value > 1.0) {
        _ if !simulated.is_beyond_noise() => Sign::None,
        true => Sign::Right,
        false => Sign::Wrong,
    }
}

fn signs(simulated: &Side, guests: &Side, baseline: &str, cells: &BTreeSet<&String>) -> String {
    let levels: Vec<&String> = guests.levels.iter().filter(|l| *l != baseline).collect();
    let mut rows = format!("| ratio to {baseline} |");
    let _infallible = write!(
        rows,
        "{}\n|---|{}\n",
        levels.iter().map(|l| format!(" {l}: guests | simulated |")).collect::<String>(),
        "---|---|".repeat(levels.len())
    );
    // Beyond noise, of these right, wrong and none: each on its own, and where all cells are taken together.
    let (mut all, mut own, mut together) = (0, [0; 4], [0; 4]);
    for cell in cells {
        let mut row = format!("| {cell} |");
        for &level in &levels {
            let place = ((*cell).clone(), level.clone());
            let (Some(&s), Some(&m)) = (simulated.ratios.get(&place), guests.ratios.get(&place)) else {
                row.push_str(" – | – |");
                continue;
            };
            all += 1;
            let beyond = m.is_beyond_noise();
            let said = sign(s, m);
            for (counts, is_counted) in [(&mut own, beyond), (&mut together, m.is_different)] {
                if is_counted {
                    counts[0] += 1;
                    counts[1 + said as usize] += 1;
                }
            }
            let measured = format!("{:.2} ({:.2}–{:.2})", m.value, m.low, m.high);
            let _infallible = match (beyond, said) {
                (false, _) => write!(row, " {measured} | {:.2} |", s.value),
                (true, Sign::Right) => write!(row, " **{measured}** | {:.2} |", s.value),
                (true, Sign::Wrong) => write!(row, " **{measured}** | {:.2} wrong |", s.value),
                (true, Sign::None) => write!(row, " **{measured}** | {:.2} none |", s.value),
            };
        }
        rows.push_str(&row);
        rows.push('\n');
    }
    let counts = |[n, right, wrong, none]: [u32; 4]| {
        format!(
            "{n}, of these the simulated sign is right in {right}, wrong in {wrong}, and in {none} nothing is simulated beyond its own noise"
        )
    };
    format!(
        "Signs: {all} ratios were measured. Beyond noise by their own 95 % interval (bold; one in 20 is so by chance) are {}. \
         Taken together (Holm): {}.\n\n{rows}",
        counts(own),
        counts(together)
    )
}

fn shares(simulated: &Side, guests: &Side, cells: &BTreeSet<&String>) -> String {
    let levels = &guests.levels;
    let mut rows = String::from("| R+, % of switch-outs |");
    let _infallible = write!(
        rows,
        "{}\n|---|{}\n",
        levels.iter().map(|l| format!(" {l}: guests | simulated |")).collect::<String>(),
        "--:|--:|".repeat(levels.len())
    );
    let (mut compared, mut within) = (0, 0);
    let mut by_level: BTreeMap<&str, (f64, f64, u32, u32)> = BTreeMap::new();
    for cell in cells {
        let mut row = format!("| {cell} |");
        let mut any = false;
        for level in levels {
            let place = ((*cell).clone(), level.clone());
            let side = |side: &Side| side.outs.get(&place).copied().filter(|outs| outs.count() >= FEWEST);
            let (Some(s), Some(m)) = (side(simulated), side(guests)) else {
                row.push_str(" – | – |");
                continue;
            };
            any = true;
            let (s, m) = (s.inside_percent(), m.inside_percent());
            let is_within = (s - m).abs() <= LIMIT_POINTS;
            compared += 1;
            within += u32::from(is_within);
            let sums = by_level.entry(level).or_default();
            *sums = (sums.0 + m, sums.1 + s, sums.2 + 1, sums.3 + u32::from(is_within));
            let mark = if is_within { "" } else { "**" };
            let _infallible = write!(row, " {m:.0} | {mark}{s:.0}{mark} |");
        }
        if any {
            rows.push_str(&row);
            rows.push('\n');
        }
    }
    let mut of_levels = String::new();
    for level in levels {
        if let Some((m, s, n, within)) = by_level.get(level.as_str()) {
            let (m, s) = (m / f64::from(*n), s / f64::from(*n));
            let _infallible =
                write!(of_levels, " {level}: {within} of {n}, on average {m:.0} measured and {s:.0} simulated.");
        }
    }
    format!(
        "Shares: {within} of {compared} are within {LIMIT_POINTS:.0} points (others bold; – with fewer than {FEWEST:.0} \
         switch-outs on either side).{of_levels}\n\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ratio: f64, half: f64, inside: f64) -> Side {
        let place = |level: &str| ("threads=8".to_owned(), level.to_owned());
        let ratio = Ratio { value: ratio, low: ratio - half, high: ratio + half, is_different: half < 0.01 };
        Side {
            ratios: [(place("lazy"), ratio)].into(),
            outs: [
                (place("none"), Outs { boundary: 500.0, inside: 0.0 }),
                (place("lazy"), Outs { boundary: 1000.0 - inside, inside }),
            ]
            .into(),
            levels: vec!["none".to_owned(), "lazy".to_owned()],
        }
    }

    fn rendered(simulated: &Side, guests: &Side) -> (String, String) {
        let text = tables(simulated, guests).expect("they are of one plan");
        let line = |begin: &str| text.lines().find(|l| l.starts_with(begin)).unwrap_or_default().to_owned();
        (line("Signs: "), line("Shares: "))
    }

    #[test]
    fn a_sign_is_right_wrong_or_none_where_the_guests_show_one() {
        let own = |n: &str| format!("chance) are {n}");
        let right = "1, of these the simulated sign is right in 1, wrong in 0, and in 0";
        assert!(rendered(&side(1.2, 0.02, 0.0), &side(1.5, 0.1, 0.0)).0.contains(&own(right)));
        let wrong = "1, of these the simulated sign is right in 0, wrong in 1, and in 0";
        assert!(rendered(&side(0.8, 0.02, 0.0), &side(1.5, 0.1, 0.0)).0.contains(&own(wrong)));
        let none = "1, of these the simulated sign is right in 0, wrong in 0, and in 1";
        assert!(rendered(&side(0.8, 0.3, 0.0), &side(1.5, 0.1, 0.0)).0.contains(&own(none)));
        let noise = "0, of these the simulated sign is right in 0, wrong in 0, and in 0";
        assert!(rendered(&side(0.8, 0.02, 0.0), &side(1.05, 0.1, 0.0)).0.contains(&own(noise)));
    }

    #[test]
    fn a_share_is_within_ten_points_or_it_is_not_and_few_switches_make_none() {
        let of = |simulated: f64, guests: f64| rendered(&side(1.0, 0.1, simulated), &side(1.0, 0.1, guests)).1;
        assert!(of(200.0, 300.0).contains("2 of 2 are within"), "{}", of(200.0, 300.0));
        assert!(of(199.0, 300.0).contains("1 of 2 are within"));
        assert!(of(199.0, 300.0).contains("lazy: 0 of 1, on average 30 measured and 20 simulated."));
        let mut few = side(1.0, 0.1, 0.0);
        few.outs.values_mut().for_each(|outs| outs.boundary = 199.0);
        assert!(rendered(&few, &side(1.0, 0.1, 300.0)).1.contains("0 of 0 are within"));
    }

    #[test]
    fn bundles_of_two_plans_are_refused() {
        let mut other = side(1.0, 0.1, 0.0);
        other.ratios.clear();
        assert!(tables(&other, &side(1.0, 0.1, 0.0)).is_err());
    }
}
