//! What a machine must be to give a ratio that was measured elsewhere.

use super::predict::{PredictRequest, pairs, quantile, ratio_of, spread};
use holdup_model::prediction::{Reach, ReachedAlone, ReachedTogether, Wanted};
use holdup_model::{Arm, Plan, Problem};
use holdup_sim::machine::{Described, Parameter, draws};

/// How many machines are drawn for each that the prediction draws: a share of them must reach the ratio to say anything.
const DRAWS_FOR_ONE: u32 = 5;
/// Values of each parameter alone: from the least to the most, on the scale of logarithms.
const STEPS: usize = 5;
/// The most that one cost may be, ns.
const MOST_NS: f64 = 1e9;

/// Machines on which a level may bring the ratio that is wanted or more of it: each parameter alone, and all together.
pub(super) struct Search<'a> {
    wanted: &'a Wanted,
    baseline: String,
    machine: &'a Described,
    wide: Described,
    /// Values of one parameter, as (its place, ns).
    steps: Vec<(usize, u64)>,
    /// The arms that are in a pair.
    pub(super) arms: Vec<&'a Arm>,
    pairs: Vec<(usize, usize)>,
    /// The machine itself, then one for each step, then those that were drawn.
    pub(super) machines: Vec<Described>,
}

impl<'a> Search<'a> {
    /// What is to be simulated.
    ///
    /// # Errors
    /// When the plan has no such level.
    pub(super) fn new(
        request: &PredictRequest<'_>,
        machine: &'a Described,
        wanted: &'a Wanted,
        arms: &[&'a Arm],
    ) -> Result<Self, Problem> {
        let baseline = baseline_of(request.plan, wanted)?;
        let all_pairs = pairs(arms, &wanted.factor, &baseline, &wanted.level);
        // Arms that are in no pair need not be simulated.
        let (arms, pairs) = only(arms, &all_pairs);
        let wide = widened(machine, wanted.widen);
        let steps: Vec<(usize, u64)> =
            wide.parameters.iter().enumerate().flat_map(|(at, p)| steps(p).map(move |ns| (at, ns))).collect();
        let with = |m| Described { machine: m, ..machine.clone() };
        let mut machines = vec![machine.clone()];
        machines.extend(steps.iter().map(|(at, ns)| with(machine.with(wide.parameters[*at].name, *ns))));
        let count = (request.draws * DRAWS_FOR_ONE) as usize;
        machines.extend(draws::draws(&wide, count, request.plan.design.seed).into_iter().map(with));
        Ok(Search { wanted, baseline, machine, wide, steps, arms, pairs, machines })
    }

    /// What follows from the metric of each arm on each machine.
    pub(super) fn judge(&self, values: &[Vec<f64>]) -> Reach {
        let wanted = self.wanted;
        let ratio: Vec<f64> = values.iter().map(|of_arms| ratio_of(&self.pairs, of_arms)).collect();
        let (alone, together) = ratio[1..].split_at(self.steps.len());
        let drawn = &self.machines[1 + self.steps.len()..];
        Reach {
            factor: wanted.factor.clone(),
            level: wanted.level.clone(),
            baseline: self.baseline.clone(),
            wanted: wanted.ratio,
            widened: wanted.widen,
            as_described: ratio[0],
            alone: alone_of(self.machine, wanted, &self.steps, alone),
            drawn: spread(together.iter().copied()),
            extremes: extremes(together),
            machines: drawn.len() as u32,
            reached: together.iter().filter(|r| wanted.is_reached(**r)).count() as u32,
            together: together_of(&self.wide, wanted, drawn, together),
        }
    }
}

fn baseline_of(plan: &Plan, wanted: &Wanted) -> Result<String, Problem> {
    let axes = plan.workloads.iter().flat_map(|w| &w.axes).map(|a| (&a.name, &a.levels));
    let mut factors = plan.factors.iter().map(|f| (&f.name, &f.levels)).chain(axes);
    let what = format!("--reach {}={}", wanted.factor, wanted.level);
    let Some((_, levels)) = factors.find(|(name, _)| **name == wanted.factor) else {
        return Err(Problem::usage(what, "the plan has no such factor").hint("name a factor or an axis of the plan"));
    };
    let labels: Vec<&str> = levels.iter().map(|l| l.label.as_str()).collect();
    match labels.split_first() {
        Some((first, others)) if others.contains(&wanted.level.as_str()) => Ok((*first).to_owned()),
        _ => Err(Problem::usage(what, "it is no level beside the first").hint(format!(
            "levels of {}: {}",
            wanted.factor,
            labels.join(", ")
        ))),
    }
}

/// The arms that are in a pair, and the pairs by their places among these.
fn only<'a>(arms: &[&'a Arm], pairs: &[(usize, usize)]) -> (Vec<&'a Arm>, Vec<(usize, usize)>) {
    let mut used: Vec<usize> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    used.sort_unstable();
    used.dedup();
    let place = |arm: usize| used.binary_search(&arm).unwrap_or_default();
    (used.iter().map(|arm| arms[*arm]).collect(), pairs.iter().map(|(a, b)| (place(*a), place(*b))).collect())
}

/// The machine with each range widened to `times` below and above the value, unless it is wider already.
fn widened(machine: &Described, times: f64) -> Described {
    let mut wide = machine.clone();
    for p in &mut wide.parameters {
        let (low, high) = (p.value_ns as f64 / times, (p.value_ns as f64 * times).min(MOST_NS));
        p.range_ns = (p.range_ns.0.min(low as u64), p.range_ns.1.max(high as u64));
    }
    wide
}

/// Values of a parameter through its range, without the one that the machine has.
fn steps(p: &Parameter) -> impl Iterator<Item = u64> + use<> {
    let (low, high) = ((p.range_ns.0.max(1) as f64).ln(), (p.range_ns.1.max(1) as f64).ln());
    let has = p.value_ns;
    let count = if p.range_ns.0 == p.range_ns.1 { 0 } else { STEPS };
    let at = move |step: usize| (low + (high - low) * step as f64 / (STEPS - 1) as f64).exp().round() as u64;
    // The middle is the value itself, but for rounding.
    (0..count).map(at).filter(move |ns| ns.abs_diff(has) * 20 > has)
}

fn alone_of(machine: &Described, wanted: &Wanted, steps: &[(usize, u64)], ratios: &[f64]) -> Vec<ReachedAlone> {
    let mut all = Vec::new();
    for (at, p) in machine.parameters.iter().enumerate() {
        let of: Vec<(u64, f64)> = steps
            .iter()
            .zip(ratios)
            .filter(|((of, _), r)| *of == at && r.is_finite())
            .map(|((_, ns), r)| (*ns, *r))
            .collect();
        let away = |ns: u64| (ns as f64 / p.value_ns.max(1) as f64).ln().abs();
        let Some(nearest) = of.iter().copied().max_by(|a, b| wanted.way(a.1).total_cmp(&wanted.way(b.1))) else {
            continue;
        };
        let first = of.iter().filter(|(_, r)| wanted.is_reached(*r)).map(|(ns, _)| *ns);
        all.push(ReachedAlone {
            parameter: p.name.to_owned(),
            value_ns: p.value_ns,
            nearest_ns: nearest.0,
            nearest: nearest.1,
            reached_at_ns: first.min_by(|a, b| away(*a).total_cmp(&away(*b))),
        });
    }
    all.sort_by(|a, b| {
        wanted.way(b.nearest).total_cmp(&wanted.way(a.nearest)).then_with(|| a.parameter.cmp(&b.parameter))
    });
    all
}

fn extremes(ratios: &[f64]) -> (f64, f64) {
    let finite = ratios.iter().copied().filter(|r| r.is_finite());
    finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), r| (low.min(r), high.max(r)))
}

/// The parameters by which machines that reach the ratio differ from those that do not: their distributions are further
/// apart than 1.36 √((n+m)/nm), which two samples of one distribution are in 5 % of all cases (Kolmogorov and Smirnov;
/// Hornberger and Spear, An approach to the preliminary analysis of environmental systems, 1981).
fn together_of(wide: &Described, wanted: &Wanted, drawn: &[Described], ratios: &[f64]) -> Vec<ReachedTogether> {
    let mut all = Vec::new();
    for p in wide.parameters.iter().filter(|p| p.range_ns.0 < p.range_ns.1) {
        let (mut reaching, mut others) = (Vec::new(), Vec::new());
        for (machine, ratio) in drawn.iter().zip(ratios) {
            let ns = machine.machine.costs.clone().place(p.name).map_or(0, |place| *place) as f64;
            match wanted.is_reached(*ratio) {
                true => reaching.push(ns),
                false => others.push(ns),
            }
        }
        if reaching.is_empty() || others.is_empty() {
            return Vec::new();
        }
        reaching.sort_by(f64::total_cmp);
        others.sort_by(f64::total_cmp);
        let (n, m) = (reaching.len() as f64, others.len() as f64);
        let apart = apart(&reaching, &others);
        if apart > 1.36 * ((n + m) / (n * m)).sqrt() {
            let at = |share| quantile(&reaching, share).round() as u64;
            all.push(ReachedTogether {
                parameter: p.name.to_owned(),
                drawn_ns: p.range_ns,
                reaching_ns: (at(0.0), at(0.5), at(1.0)),
                apart,
            });
        }
    }
    all.sort_by(|a, b| b.apart.total_cmp(&a.apart).then_with(|| a.parameter.cmp(&b.parameter)));
    all
}

/// The greatest distance of two sorted samples' distributions.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let share = |of: &[f64], x: f64| of.partition_point(|v| *v <= x) as f64 / of.len() as f64;
    a.iter().chain(b).map(|x| (share(a, *x) - share(b, *x)).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_sim::machine::catalogue;

    fn wanted(ratio: f64) -> Wanted {
        Wanted { factor: "preempt".to_owned(), level: "lazy".to_owned(), ratio, widen: 4.0 }
    }

    #[test]
    fn a_loss_is_reached_from_above_and_a_gain_from_below() {
        assert!(wanted(0.5).is_reached(0.4) && !wanted(0.5).is_reached(0.6));
        assert!(wanted(1.5).is_reached(1.6) && !wanted(1.5).is_reached(1.4));
        assert!(!wanted(0.5).is_reached(f64::NAN) && !wanted(1.5).is_reached(f64::NAN));
    }

    #[test]
    fn distributions_are_apart_as_their_steps_say() {
        assert!((apart(&[1.0, 2.0], &[3.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!((apart(&[1.0, 3.0], &[2.0, 4.0]) - 0.5).abs() < 1e-12);
        assert!(apart(&[1.0, 2.0], &[1.0, 2.0]).abs() < 1e-12);
    }

    #[test]
    fn machines_that_reach_a_ratio_share_the_parameter_that_causes_it() {
        let wide = widened(&catalogue::find("server-8").expect("it is there"), 4.0);
        let with = |m| Described { machine: m, ..wide.clone() };
        let drawn: Vec<Described> = draws::draws(&wide, 60, 1).into_iter().map(with).collect();
        // The ratio depends on one cost alone: only that one may be reported.
        let fault = |d: &Described| d.machine.costs.fault_ns as f64;
        let ratios: Vec<f64> = drawn.iter().map(|d| 300.0 / fault(d)).collect();
        let shared = together_of(&wide, &wanted(0.5), &drawn, &ratios);
        assert_eq!(shared.first().map(|t| t.parameter.as_str()), Some("fault_ns"), "{shared:?}");
        assert!((shared[0].apart - 1.0).abs() < 1e-12 && shared[0].reaching_ns.0 >= 600, "{shared:?}");
        assert!(shared.len() < 6, "32 parameters, one in twenty by chance: {shared:?}");
        assert_eq!(together_of(&wide, &wanted(0.0001), &drawn, &ratios), Vec::new(), "none reaches it");
    }

    #[test]
    fn steps_go_through_the_widened_range_without_the_value_itself() {
        let wide = widened(&catalogue::find("server-8").expect("it is there"), 4.0);
        let p = wide.parameters.iter().find(|p| p.name == "fault_ns").expect("it is a cost");
        assert_eq!((p.value_ns, p.range_ns), (600, (150, 2400)));
        assert_eq!(steps(p).collect::<Vec<_>>(), [150, 300, 1200, 2400]);
    }
}
