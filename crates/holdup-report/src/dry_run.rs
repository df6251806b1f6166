//! What a run would do, before it does it.

use crate::text::{self, clean, wrap};
use holdup_model::plan::StopRule;
use holdup_model::{Plan, Schedule};

const WIDTH: usize = 80;
/// Arms, and trials of a block, that are shown.
const ARMS: usize = 40;

/// The arms, the order, the time and what is touched. `estimate_ns` is the whole run's length; `touches` are what each factor
/// changes on the host, as (factor, in words).
pub fn dry_run(plan: &Plan, schedule: &Schedule, estimate_ns: u64, touches: &[(String, String)]) -> String {
    let mut out = format!("{}\n", clean(&plan.name));
    out.push_str(&wrap(&plan.question, WIDTH, "", ""));
    let d = &plan.design;
    out.push_str(&format!("\n{}, target {}\n", text::count(schedule.arms.len(), "arm"), clean(&plan.target)));
    let rows: Vec<Vec<String>> =
        schedule.arms.iter().take(ARMS).map(|a| vec![format!("{:>4}", a.id), clean(&a.label)]).collect();
    out.push_str(&text::align(&rows, &[1], ""));
    if schedule.arms.len() > ARMS {
        out.push_str(&format!("   … and {}\n", text::count(schedule.arms.len() - ARMS, "further arm")));
    }
    let blocks = u64::from(d.blocks) * u64::from(d.sessions);
    let line = format!(
        "{}{} in {} of {}: each block runs each arm once, in random order from seed {}. A trial settles {}, warms up {}, \
         measures {}.{}",
        if d.stop == StopRule::Decided { "At most " } else { "" },
        text::count(schedule.trials.len(), "trial"),
        text::count(usize::try_from(blocks).unwrap_or(usize::MAX), "block"),
        text::count(d.sessions as usize, "session"),
        d.seed,
        text::duration(d.settle_ns),
        text::duration(d.warmup_ns),
        text::duration(d.duration_ns),
        if d.stop == StopRule::Decided { " It ends when every headline is decided." } else { "" },
    );
    out.push('\n');
    out.push_str(&wrap(&line, WIDTH, "", ""));
    out.push_str(&order(schedule));
    let primary: Vec<String> = plan
        .metrics
        .iter()
        .filter(|m| m.primary)
        .map(|m| match &m.workload {
            Some(w) => format!("{} of {w} (margin ±{})", m.id, text::percent(m.margin)),
            None => format!("{} (margin ±{})", m.id, text::percent(m.margin)),
        })
        .collect();
    if !primary.is_empty() {
        out.push_str(&wrap(&format!("Primary metric: {}.", primary.join("; ")), WIDTH, "", ""));
    }
    let collectors = if plan.collectors.is_empty() { "none".to_owned() } else { plan.collectors.join(", ") };
    out.push_str(&wrap(&format!("Collectors: {collectors}."), WIDTH, "", ""));
    let budget = d.budget_ns.map(|b| format!("; the budget ends it after {}", text::duration(b))).unwrap_or_default();
    out.push_str(&wrap(&format!("Takes about {}{budget}.", text::duration(estimate_ns)), WIDTH, "", ""));
    out.push('\n');
    if touches.is_empty() {
        out.push_str("Nothing on this host is set.\n");
    } else {
        out.push_str("What is set, and put back afterwards:\n");
        for (factor, change) in touches {
            out.push_str(&wrap(&format!("{factor}: {change}"), WIDTH, "  ", "    "));
        }
    }
    out
}

/// The first blocks, so that the order can be seen to be mixed.
fn order(schedule: &Schedule) -> String {
    let mut out = String::new();
    let mut blocks: Vec<(u32, Vec<String>)> = Vec::new();
    for t in &schedule.trials {
        match blocks.last_mut() {
            Some((block, arms)) if *block == t.block => arms.push(t.arm.to_string()),
            _ => blocks.push((t.block, vec![t.arm.to_string()])),
        }
    }
    for (block, mut arms) in blocks.iter().take(3).cloned() {
        let more = arms.len().saturating_sub(ARMS);
        if more > 0 {
            arms.truncate(ARMS);
            arms.push(format!("… and {more} more"));
        }
        out.push_str(&wrap(&arms.join(" "), WIDTH, &format!("  block {block}: arms "), "           "));
    }
    if blocks.len() > 3 {
        out.push_str(&format!("  … and {}\n", text::count(blocks.len() - 3, "further block")));
    }
    out
}
