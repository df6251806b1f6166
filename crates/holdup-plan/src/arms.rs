//! Arms: how many there are, and which.

use holdup_model::plan::{Exclusion, Factor, Layout, Level};
use holdup_model::{Arm, Plan, Problem, Replica, WorkloadUse};
use std::collections::BTreeMap;

/// The most arms that a plan may have.
pub const MOST_ARMS: u64 = 10_000;
/// The most trials that a plan may have.
pub const MOST_TRIALS: u64 = 1_000_000;

/// How many arms a plan has before anything is excluded; an error when they are too many. Only multiplies, makes nothing.
pub(crate) fn most(plan: &Plan) -> Result<u64, Problem> {
    let mut arms: u64 = 0;
    for workload in &plan.workloads {
        arms = of_workload(plan, workload)
            .and_then(|more| arms.checked_add(more))
            .filter(|arms| *arms <= MOST_ARMS)
            .ok_or_else(|| too_many_arms(plan))?;
    }
    Ok(arms)
}

/// How many arms a plan has; an error when arms or trials are too many. What multiplies to too many arms is refused
/// before any is made, also those that are excluded; only where something is excluded are they made to count them.
pub(crate) fn count(plan: &Plan) -> Result<u64, Problem> {
    let most = most(plan)?;
    let arms = if plan.exclude.is_empty() { most } else { left(plan).len() as u64 };
    let design = &plan.design;
    let blocks = u64::from(design.blocks).saturating_mul(u64::from(design.sessions));
    let trials = arms.saturating_mul(blocks);
    if trials > MOST_TRIALS || blocks > u64::from(u32::MAX) {
        let (b, s) = (design.blocks, design.sessions);
        return Err(Problem::usage(
            "the plan is too large",
            format!("{arms} arms × {b} blocks × {s} sessions are {trials} trials, at most {MOST_TRIALS} are possible"),
        )
        .hint("fewer blocks, sessions or levels"));
    }
    Ok(arms)
}

/// The arms of one workload; `None` when the number does not fit.
fn of_workload(plan: &Plan, workload: &WorkloadUse) -> Option<u64> {
    let cells = workload.axes.iter().try_fold(1_u64, |cells, axis| cells.checked_mul(axis.levels.len() as u64))?;
    let mut of_factors = factors_of(plan, workload).map(|f| f.levels.len() as u64);
    let combinations = match plan.design.layout {
        Layout::Factorial => of_factors.try_fold(1_u64, u64::checked_mul)?,
        Layout::OneAtATime => of_factors.try_fold(1_u64, |all, levels| all.checked_add(levels.saturating_sub(1)))?,
    };
    let replicas = u64::from(plan.design.aa_pair) + u64::from(plan.design.unobserved_pair);
    cells.checked_mul(combinations.checked_add(replicas)?)
}

/// What multiplies to how much.
fn too_many_arms(plan: &Plan) -> Problem {
    const SHOWN: usize = 8;
    let parts: Vec<String> = plan.workloads.iter().take(SHOWN).map(|w| formula(plan, w)).collect();
    let total = plan
        .workloads
        .iter()
        .try_fold(0_u64, |sum, workload| sum.checked_add(of_workload(plan, workload)?))
        .map_or_else(|| "more than can be counted".to_owned(), |n| n.to_string());
    let more = if plan.workloads.len() > SHOWN { "; …" } else { "" };
    let hint = match plan.design.layout {
        Layout::Factorial => "fewer levels, or layout = \"one-at-a-time\" in [design]",
        Layout::OneAtATime => "fewer levels, or two plans",
    };
    Problem::usage(
        "the plan is too large",
        format!("its arms are {total}, at most {MOST_ARMS} are possible ({}{more})", parts.join("; ")),
    )
    .hint(hint)
}

/// How the arms of a workload come about: `pgbench: 200 clients × (2 autogroup × 2 postgres.pool + 1 A/A)`.
fn formula(plan: &Plan, workload: &WorkloadUse) -> String {
    let mut product: Vec<String> = workload.axes.iter().map(|a| format!("{} {}", a.levels.len(), a.name)).collect();
    let factors: Vec<&Factor> = factors_of(plan, workload).collect();
    let mut sum: Vec<String> = match plan.design.layout {
        _ if factors.is_empty() => vec!["1 baseline".to_owned()],
        Layout::Factorial => {
            let of_each: Vec<String> = factors.iter().map(|f| format!("{} {}", f.levels.len(), f.name)).collect();
            vec![of_each.join(" × ")]
        }
        Layout::OneAtATime => {
            let of_each = factors.iter().map(|f| format!("{} {}", f.levels.len().saturating_sub(1), f.name));
            std::iter::once("1 baseline".to_owned()).chain(of_each).collect()
        }
    };
    sum.extend(plan.design.aa_pair.then(|| "1 A/A".to_owned()));
    sum.extend(plan.design.unobserved_pair.then(|| "1 unobserved".to_owned()));
    product.push(if sum.len() == 1 { sum.remove(0) } else { format!("({})", sum.join(" + ")) });
    format!("{}: {}", workload.name, product.join(" × "))
}

/// The factors that hold for a workload.
fn factors_of<'a>(plan: &'a Plan, workload: &'a WorkloadUse) -> impl Iterator<Item = &'a Factor> {
    plan.factors.iter().filter(|f| f.workloads.is_empty() || f.workloads.contains(&workload.name))
}

/// The levels of one arm.
type Levels = BTreeMap<String, Level>;

/// All arms. Those of a workload stand together, those of a cell of its axes too: the baseline of the factors first,
/// then the others, then the replicas.
pub(crate) fn all(plan: &Plan) -> Result<Vec<Arm>, Problem> {
    for factor in plan.factors.iter().chain(plan.workloads.iter().flat_map(|w| &w.axes)) {
        if factor.levels.is_empty() {
            return Err(Problem::usage(format!("factor {}", factor.name), "it has no levels"));
        }
    }
    count(plan)?;
    let arms = left(plan);
    if arms.is_empty() && !plan.exclude.is_empty() {
        return Err(Problem::usage("the plan", "everything is excluded"));
    }
    Ok(arms)
}

/// True if an arm has the levels of an exclusion.
pub(crate) fn is_excluded_by(exclusion: &Exclusion, arm: &Arm) -> bool {
    exclusion.matches(|name| arm.factors.get(name).or_else(|| arm.axes.get(name)))
}

/// The arms that are run, with their numbers.
fn left(plan: &Plan) -> Vec<Arm> {
    let mut arms = with_excluded(plan);
    if !plan.exclude.is_empty() {
        arms.retain(|arm| !plan.exclude.iter().any(|exclusion| is_excluded_by(exclusion, arm)));
        (0..).zip(&mut arms).for_each(|(id, arm)| arm.id = id);
    }
    arms
}

/// All arms, those that are excluded too. The plan is within the limits.
pub(crate) fn with_excluded(plan: &Plan) -> Vec<Arm> {
    let mut arms: Vec<Arm> = Vec::new();
    for workload in &plan.workloads {
        let axes: Vec<&Factor> = workload.axes.iter().collect();
        let factors: Vec<&Factor> = factors_of(plan, workload).collect();
        let combinations = match plan.design.layout {
            Layout::Factorial => crossed(&factors),
            Layout::OneAtATime => one_at_a_time(&factors),
        };
        for cell in crossed(&axes) {
            let at = place(&workload.name, &axes, &cell);
            for combination in &combinations {
                let label = place(&at, &factors, combination);
                push(&mut arms, workload, label, &cell, combination, None);
            }
            let Some(baseline) = combinations.first() else { continue };
            if plan.design.aa_pair {
                push(&mut arms, workload, format!("{at} (A/A)"), &cell, baseline, Some(Replica::Same));
            }
            if plan.design.unobserved_pair {
                push(&mut arms, workload, format!("{at} (unobserved)"), &cell, baseline, Some(Replica::Unobserved));
            }
        }
    }
    arms
}

fn push(
    arms: &mut Vec<Arm>,
    of: &WorkloadUse,
    label: String,
    axes: &Levels,
    factors: &Levels,
    replica: Option<Replica>,
) {
    let id = u32::try_from(arms.len()).unwrap_or(u32::MAX);
    arms.push(Arm { id, label, workload: of.name.clone(), axes: axes.clone(), factors: factors.clone(), replica });
}

/// `select-only clients=64`, in the order of the plan.
fn place(front: &str, factors: &[&Factor], levels: &Levels) -> String {
    let mut label = front.to_owned();
    for factor in factors {
        if let Some(level) = levels.get(&factor.name) {
            match factor.name.as_str() {
                "command" => label.push_str(&format!(" `{}`", level.label)),
                name => label.push_str(&format!(" {name}={}", level.label)),
            }
        }
    }
    label
}

/// Every combination; the last factor changes fastest.
fn crossed(factors: &[&Factor]) -> Vec<Levels> {
    let mut all = vec![Levels::new()];
    for factor in factors {
        all = all
            .into_iter()
            .flat_map(|levels| {
                factor.levels.iter().map(move |level| {
                    let mut levels = levels.clone();
                    levels.insert(factor.name.clone(), level.clone());
                    levels
                })
            })
            .collect();
    }
    all
}

/// The baseline, and each other level alone.
fn one_at_a_time(factors: &[&Factor]) -> Vec<Levels> {
    let baseline: Levels =
        factors.iter().filter_map(|f| f.levels.first().map(|level| (f.name.clone(), level.clone()))).collect();
    let mut all = vec![baseline.clone()];
    for factor in factors {
        for level in factor.levels.iter().skip(1) {
            let mut levels = baseline.clone();
            levels.insert(factor.name.clone(), level.clone());
            all.push(levels);
        }
    }
    all
}
