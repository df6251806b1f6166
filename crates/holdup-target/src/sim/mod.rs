//! Sessions on a simulated machine: trials are computed ahead, on all CPUs, and returned in their order.

mod ahead;
mod calibrate;
mod evidence;
mod predict;
mod reach;
mod session;
mod timeline;
mod traces;

use crate::local;
use crate::session::{Readiness, SessionRequest};
use holdup_host::Host;
use holdup_model::bundle::CollectorState;
use holdup_model::{Arm, Parameters, Plan, Problem, WorkloadUse};
use holdup_sim::machine::{Described, Machine, catalogue};
use holdup_sim::names::Names;
use holdup_sim::workloads::{Levels, Workload};
use holdup_sim::world::Load;
use holdup_sim::{factors, workloads};
use std::path::Path;
use traces::Traces;

pub use calibrate::{CalibrateRequest, calibrate, calibrate_guest};
pub(crate) use calibrate::{Calibration, calibrated};
pub use predict::{PredictRequest, Sweep, described_of, predict};
pub(crate) use session::SimSession;
pub use session::trial_cost;

/// What stands before the machine's name in a target.
const PREFIX: &str = "sim:";

/// The machine that a target names: `""` for this host, a name of the catalogue, or a path.
///
/// # Errors
/// When there is no such machine, or its file cannot be read or is wrong.
pub(crate) fn described(host: &Host, argument: &str) -> Result<Described, Problem> {
    match argument {
        "" => here(host),
        path if path.contains('/') || path.ends_with(".toml") => read(Path::new(path)),
        name => catalogue::find(name),
    }
}

fn read(path: &Path) -> Result<Described, Problem> {
    let text = text_of_file(path)?;
    Described::parse(&path.display().to_string(), &text).map_err(|problem| match problem.hint {
        Some(_) => problem,
        None => problem.hint("`holdup list machines server-8` shows a whole machine file"),
    })
}

fn text_of_file(path: &Path) -> Result<String, Problem> {
    holdup_files::read_text_input(path)
        .map_err(|e| Problem::usage(format!("machine {}", path.display()), e.to_string()).hint("give a machine file"))
}

/// The text of the machine file that a target names, unless it is one of the catalogue.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn text_of(host: &Host, target: &str) -> Result<Option<String>, Problem> {
    match target.strip_prefix(PREFIX).unwrap_or_default() {
        "" => text_of_here(host).map(|(_, text)| Some(text)),
        path if path.contains('/') || path.ends_with(".toml") => text_of_file(Path::new(path)).map(Some),
        _ => Ok(None),
    }
}

/// This host as it was calibrated; else one with its number of CPUs whose costs are assumed.
fn here(host: &Host) -> Result<Described, Problem> {
    let (name, text) = text_of_here(host)?;
    Described::parse(&name, &text)
}

/// What stands in complaints as the name of this host's machine file, and its text.
fn text_of_here(host: &Host) -> Result<(String, String), Problem> {
    let path = holdup_host::state::machine_path();
    match host.read_own(&path) {
        Ok(bytes) => return Ok((path, String::from_utf8_lossy(&bytes).into_owned())),
        Err(e) if e.is_gone() => {}
        Err(e) => return Err(e.into()),
    }
    let machine = holdup_host::machine(host);
    let text = format!(
        "name = \"this-host\"\nsummary = \"this host's number of CPUs; nothing was measured: run `holdup calibrate`\"\n\
         memory_gib = {}\n[topology]\nsmt = 1\ncores = {}\nllcs = 1\nnodes = 1\n\
         source = \"measured: CPUs that holdup may use\"\n[kernel]\nversion = \"6.18\"\npreempt = \"lazy\"\nhz = 250\n",
        (machine.memory_bytes >> 30).max(1),
        machine.cpus,
    );
    Ok(("this-host".to_owned(), text))
}

/// The machine of a plan.
fn machine_of(request: &SessionRequest<'_>) -> Result<Described, Problem> {
    described(request.host, request.plan.target.strip_prefix(PREFIX).unwrap_or_default())
}

/// Leaves out the optional factors that a simulated machine does not have, and replaces default collectors by those that
/// the simulator has.
pub(crate) fn drop_unavailable_factors(mut plan: Plan) -> (Plan, Vec<String>) {
    let mut notes = Vec::new();
    let is_default = |id: &String| holdup_evidence::find(id).is_some_and(holdup_evidence::Collector::is_default);
    if !plan.collectors.is_empty() && plan.collectors.iter().all(is_default) {
        plan.collectors = evidence::defaults(plan.workloads.iter().map(|used| used.kind.as_str()));
    }
    let (has, have_not): (Vec<String>, Vec<String>) =
        std::mem::take(&mut plan.collectors).into_iter().partition(|id| evidence::availability(id, &plan).is_usable());
    plan.collectors = has;
    for id in have_not {
        notes.push(format!("collector {id} is left out: a simulated machine does not have it"));
    }
    plan.factors.retain(|factor| {
        let stays = !factor.optional || changes(&factor.name).is_some();
        if !stays {
            notes.push(format!("factor {} is left out: a simulated machine does not have it", factor.name));
        }
        stays
    });
    for profile in &mut plan.profiles {
        for setting in profile.settings.extract_if(.., |s| s.optional && changes(&s.knob).is_none()) {
            notes.push(format!(
                "profile {} goes without {}: a simulated machine does not have it",
                profile.name, setting.knob
            ));
        }
    }
    (plan, notes)
}

fn workload_of(used: &WorkloadUse) -> Result<&'static dyn Workload, Problem> {
    workloads::find(&used.kind).ok_or_else(|| {
        let known: Vec<&str> = workloads::ALL.iter().map(|w| w.id()).collect();
        Problem::host(format!("workload {} on target sim", used.kind), "the simulator does not have it")
            .hint(format!("the simulator has {}", known.join(", ")))
    })
}

/// All that a trial of an arm is computed from, but for its seed and its length.
struct Simulated {
    /// The plan's machine with the arm's levels.
    machine: Machine,
    load: Load,
    workload: &'static dyn Workload,
    parameters: Parameters,
    /// The longest that a trial may take which is no window but all that its load does, ns.
    at_most_ns: Option<u64>,
}

/// The machine of an arm, and what runs on it.
fn simulated(described: &Described, plan: &Plan, arm: &Arm, traces: &Traces) -> Result<Simulated, Problem> {
    let (workload, parameters) = parameters_of(plan, arm)?;
    let mut machine = described.machine.clone();
    let levels: Levels =
        crate::levels::levels_of(plan, arm).into_iter().map(|(name, level)| (name, level.value)).collect();
    let of_machine = levels.iter().filter(|(name, _)| workload.changes(name).is_none());
    factors::set_all(&mut machine, of_machine.map(|(name, value)| (name.as_str(), value)))?;
    // The simulator reads no files.
    let parameters = match workload.id() {
        "stream" => holdup_stream::without_profile(&parameters, &Host::real())?,
        _ => parameters,
    };
    let (files, at_most_ns) = traces.of(workload.id(), &parameters)?;
    let load = workload.load(&parameters, &levels, &machine, &files)?;
    load.check(&machine, &Names::of(&load))?;
    Ok(Simulated { machine, load, workload, parameters, at_most_ns })
}

/// What a factor changes, in words; `None` when neither the simulated machine nor one of its workloads has it.
pub(crate) fn changes(name: &str) -> Option<String> {
    let of_workload = || workloads::ALL.iter().find_map(|w| w.changes(name)).map(str::to_owned);
    factors::changes(name).or_else(of_workload)
}

fn parameters_of(plan: &Plan, arm: &Arm) -> Result<(&'static dyn Workload, Parameters), Problem> {
    let used = plan.workloads.iter().find(|w| w.name == arm.workload).ok_or_else(|| {
        Problem::internal(format!("workload {}", arm.workload), "the checked plan names one that does not exist")
    })?;
    Ok((workload_of(used)?, crate::levels::parameters_of(used, arm)))
}

/// ReschedRequest whether everything that the plan names can be simulated.
pub(crate) fn ready(request: &SessionRequest<'_>) -> Result<Readiness, Problem> {
    let plan = request.plan;
    let described = machine_of(request)?;
    let mut notes = vec![format!("machine {}: {}", described.name, described.summary)];
    let mut metrics = Vec::new();
    for used in &plan.workloads {
        let simulated = workload_of(used)?;
        notes.push(format!("workload {}, simulated: {}", used.kind, simulated.leaves_out()));
        metrics.extend(local::metrics_of(plan, used, local::workload_of(used)?));
    }
    let traces = Traces::read(plan, &request.schedule.arms)?;
    notes.extend(traces.notes(described.machine.topology.cpus()));
    let mut of_members: Vec<(&str, &str)> = Vec::new();
    for arm in &request.schedule.arms {
        let simulated = simulated(&described, plan, arm, &traces)?;
        of_members.extend(simulated.workload.members(&simulated.parameters).iter().map(|m| (m.id(), m.leaves_out())));
    }
    of_members.sort_unstable();
    of_members.dedup();
    notes.extend(of_members.iter().map(|(id, leaves_out)| format!("member {id}, simulated: {leaves_out}")));
    let touches = crate::levels::names(plan).filter_map(|name| Some((name.to_owned(), changes(name)?))).collect();
    let collectors = plan
        .collectors
        .iter()
        .map(|id| CollectorState { id: id.clone(), availability: evidence::availability(id, plan) })
        .collect();
    let cpus = described.machine.topology.cpus();
    let emulated = Some(format!("simulated on a machine with {cpus} CPUs ({})", described.name));
    Ok(Readiness { metrics, collectors, touches, notes, emulated })
}

#[cfg(test)]
mod tests {
    use super::session::{Job, simulate};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A plan with every workload that can be said as programs.
    const PLAN: &str = "target = \"sim:server-8\"\n\
        [[workload]]\nkind = \"pgbench\"\nclients = 8\n\
        [[workload]]\nkind = \"lock-contention\"\nthreads = 2\nalgorithm = \"tas\"\n\
        [[workload]]\nkind = \"messenger\"\n\
        [[workload]]\nkind = \"wakeup\"\n\
        [[workload]]\nkind = \"stream\"\n\
        [[workload]]\nkind = \"ping\"\nmode = \"throughput\"\n\
        [[workload]]\nkind = \"mixed\"\nforeground = \"wakeup\"\nbackground = \"messenger+stream\"\n";

    #[test]
    fn every_lock_has_a_real_and_a_simulated_side() {
        let real: Vec<_> = holdup_locks::algorithms::ALL.iter().map(|real| (real.meta.id, real.only_real)).collect();
        let simulated = holdup_sim::locks::ids();
        for (id, only_real) in &real {
            assert!(simulated.contains(id) != only_real.is_some(), "{id}: a file in holdup-sim/src/locks, or why not");
            assert_eq!(holdup_sim::locks::only_simulated(id), None, "{id} is real too");
        }
        for id in simulated.iter().filter(|id| real.iter().all(|(real, _)| real != *id)) {
            assert!(holdup_sim::locks::only_simulated(id).is_some(), "{id} does not say why holdup-locks lacks it");
        }
    }

    #[test]
    fn a_simulated_workload_has_the_metrics_of_the_real_one() {
        let described = catalogue::find("server-8").expect("it is there");
        let machine = holdup_model::Machine { cpus: 8, memory_bytes: described.memory_bytes };
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../holdup-traces/tests/samples/trace-7.dat");
        let text = format!("{PLAN}[[workload]]\nkind = \"replay\"\ntrace = \"{trace}\"\n");
        let (plan, schedule) = crate::checked(&text, machine);
        let traces = Traces::read(&plan, &schedule.arms).expect("it can be read");
        let simulated_kinds: Vec<&str> = plan.workloads.iter().map(|w| w.kind.as_str()).collect();
        assert!(workloads::ALL.iter().all(|w| simulated_kinds.contains(&w.id())), "the plan has them all");
        for used in &plan.workloads {
            let arm = schedule.arms.iter().find(|arm| arm.workload == used.name).expect("an arm");
            let job = Job {
                of_arm: Arc::new(simulated(&described, &plan, arm, &traces).expect("it can be simulated")),
                seed: 1,
                warmup_ns: 1_000_000,
                duration_ns: 2_000_000,
                collectors: Vec::new(),
            };
            let trial = simulate(&job, &AtomicBool::new(false)).expect("a trial");
            let names: Vec<&str> = trial.measurements.iter().map(|m| m.metric.as_str()).collect();
            let real = local::metrics_of(&plan, used, local::workload_of(used).expect("it is there"));
            assert_eq!(names, real.iter().map(|(_, m)| m.id.as_str()).collect::<Vec<_>>(), "{}", used.name);
        }
    }
}
