//! What a run would do, before it does it.

use crate::text::{self, clean, wrap};
use holdup_model::guest::{Accelerator, KERNEL, POSTGRES_SERVER};
use holdup_model::plan::StopRule;
use holdup_model::{Level, Plan, Schedule, TrialSpec};

const WIDTH: usize = 80;
/// Arms, and trials of a block, that are shown.
const ARMS: usize = 40;

/// The arms, the order, the time and what is touched. `estimate_ns` is the whole run's length; `touches` are what each factor
/// changes on the host, as (factor, in words).
pub fn dry_run(plan: &Plan, schedule: &Schedule, estimate_ns: u64, touches: &[(String, String)]) -> String {
    let mut out = format!("{}\n", clean(&plan.name));
    out.push_str(&wrap(&plan.question, WIDTH, "", ""));
    let d = &plan.design;
    let boots = schedule.trials.chunk_by(|a, b| a.boot == b.boot).count();
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
    out.push_str(&guest(plan, boots));
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

/// What boots, and how often; nothing for a plan whose target boots nothing.
fn guest(plan: &Plan, boots: usize) -> String {
    let Some(g) = &plan.guest else { return String::new() };
    let mut out = String::new();
    let each = boots / (plan.design.sessions as usize).max(1);
    let order = if each > 1 { format!(", {each} in each session in random order") } else { String::new() };
    let kernels: Vec<String> = of_plan(plan, KERNEL).map(|level| clean(&level.label)).collect();
    let line =
        format!("{}{order}. {}: {}.", text::count(boots, "boot"), plural(&kernels, "Kernel"), kernels.join(", "));
    out.push_str(&wrap(&line, WIDTH, "", ""));
    let servers: Vec<String> = of_plan(plan, POSTGRES_SERVER).map(|level| clean(&level.label)).collect();
    if !servers.is_empty() {
        out.push_str(&wrap(&format!("PostgreSQL: {}.", servers.join(", ")), WIDTH, "", ""));
    }
    let mut shape = vec![text::count(g.cpus as usize, "CPU"), format!("{} MB", g.memory_bytes >> 20)];
    if g.numa_nodes > 1 {
        shape.push(format!("{} NUMA nodes", g.numa_nodes));
    }
    shape.extend(g.hugepages.map(|n| text::count(n as usize, "huge page")));
    if !g.pin.is_empty() {
        shape.push(format!("pinned to {}", g.pin.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")));
    }
    shape.push(format!("accelerator {}", accelerator(g.accel)));
    if !g.append.is_empty() {
        shape.push(format!("command line with `{}`", clean(&g.append)));
    }
    out.push_str(&wrap(&format!("Guest: {}.", shape.join(", ")), WIDTH, "", ""));
    if g.peer {
        let options =
            if g.nic_options.is_empty() { String::new() } else { format!(", cards with `{}`", clean(&g.nic_options)) };
        let line = format!(
            "Peer: a second machine of the same kernel and shape at each boot, on a link between the two{options}; \
             {} MB together.",
            (g.memory_bytes >> 20) * u64::from(g.machines())
        );
        out.push_str(&wrap(&line, WIDTH, "", ""));
    }
    out
}

fn plural(of: &[String], word: &str) -> String {
    if of.len() == 1 { word.to_owned() } else { format!("{word}s") }
}

fn accelerator(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Auto => "auto",
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "tcg",
    }
}

/// The levels that a plan has of a factor, varied or fixed.
fn of_plan<'a>(plan: &'a Plan, name: &str) -> impl Iterator<Item = &'a Level> {
    let fixed = plan.settings.iter().filter(move |(n, _)| n == name).map(|(_, level)| level);
    fixed.chain(plan.factors.iter().filter(move |f| f.name == name).flat_map(|f| &f.levels))
}

/// The first blocks, or boots where a session has several, so that the order can be seen to be mixed.
fn order(schedule: &Schedule) -> String {
    let mut out = String::new();
    let boots_apart =
        schedule.trials.chunk_by(|a, b| a.session == b.session).any(|s| s.iter().any(|t| t.boot != s[0].boot));
    let (word, shown) = if boots_apart { ("boot", 8) } else { ("block", 3) };
    let runs: Vec<&[TrialSpec]> =
        schedule.trials.chunk_by(|a, b| if boots_apart { a.boot == b.boot } else { a.block == b.block }).collect();
    for run in runs.iter().take(shown) {
        // The blocks of a boot hold the same arms; the first is enough to see which.
        let of_first = run.iter().filter(|t| t.block == run[0].block);
        let mut arms: Vec<String> = of_first.map(|t| t.arm.to_string()).collect();
        let more = arms.len().saturating_sub(ARMS);
        if more > 0 {
            arms.truncate(ARMS);
            arms.push(format!("… and {more} more"));
        }
        let number = if boots_apart { run[0].boot } else { run[0].block };
        out.push_str(&wrap(&arms.join(" "), WIDTH, &format!("  {word} {number}: arms "), "           "));
    }
    if runs.len() > shown {
        out.push_str(&format!("  … and {}\n", text::count(runs.len() - shown, &format!("further {word}"))));
    }
    out
}
