//! This host as a machine of the simulator: what its costs are, as far as they can be measured.

use crate::qemu;
use crate::session::SessionRequest;
use holdup_calibration::{Context, Outcome, measure};
use holdup_files::{Folder, Output};
use holdup_host::{CpuTopology, Host};
use holdup_load::Cancel;
use holdup_model::survey::Survey;
use holdup_model::{KernelVersion, Observer, Problem};
use holdup_sim::machine::{Arch, Costs, Described, Kernel, Machine, Parameter, Provenance, Topology};
use holdup_sim::preempt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Ticks per second where the kernel does not report them.
const HZ: u32 = 250;
/// The longest source of a machine file, bytes.
const LONGEST: usize = 500;

/// What is calibrated and where that goes.
pub struct CalibrateRequest<'a> {
    pub host: &'a Host,
    /// The machine file.
    pub file: &'a Path,
    /// Where files for measurements go.
    pub workdir: PathBuf,
    /// The folder with PostgreSQL's programs; `None` to look for it.
    pub pg_bin: Option<PathBuf>,
    pub cancel: Cancel,
    /// Gets the name of each cost before it is measured.
    pub step: &'a mut dyn FnMut(&str),
}

/// Measures what things cost here and writes the machine file. What cannot be measured has the default machine's value
/// and says why.
///
/// # Errors
/// When the file cannot be written, which is found out before anything is measured, and when asked to end.
pub fn calibrate(request: CalibrateRequest<'_>) -> Result<Described, Problem> {
    let output = begin(request.file)?;
    let calibration = Calibration {
        host: request.host,
        workdir: &request.workdir,
        pg_bin: request.pg_bin,
        hz: None,
        cancel: &request.cancel,
    };
    let described = calibrated(calibration, request.step)?;
    end(output, request.file, &described.to_toml())?;
    Ok(described)
}

/// Boots the guest that a plan describes, measures what things cost in it, and writes the machine file. What the plan has its
/// guests do plays no part.
///
/// # Errors
/// When the plan names several kinds of guest, when the guest cannot be had or is lost, and as [`calibrate`].
pub fn calibrate_guest(
    request: &SessionRequest<'_>,
    file: &Path,
    observer: &mut dyn Observer,
) -> Result<Described, Problem> {
    let output = begin(file)?;
    let (text, about) = qemu::calibrate(request, observer)?;
    let mut measured = Described::parse("what the guest measured", &text)?;
    if about.starts_with("emulated") {
        mark_emulated(&mut measured.parameters);
    }
    let described = Described {
        name: "guest".to_owned(),
        summary: short(&format!("a guest, {about}: {}", measured.summary)),
        ..measured
    };
    end(output, file, &described.to_toml())?;
    Ok(described)
}

/// What a host is measured with.
pub(crate) struct Calibration<'a> {
    /// The host, which is the running one.
    pub(crate) host: &'a Host,
    /// Where files for measurements go.
    pub(crate) workdir: &'a Path,
    /// The folder with PostgreSQL's programs; `None` to look for it.
    pub(crate) pg_bin: Option<PathBuf>,
    /// Ticks per second, where the kernel itself does not report them.
    pub(crate) hz: Option<u32>,
    /// ReschedRequest to end.
    pub(crate) cancel: &'a Cancel,
}

/// Measures what things cost here; `step` gets the name of each cost before it is measured.
pub(crate) fn calibrated(with: Calibration<'_>, step: &mut dyn FnMut(&str)) -> Result<Described, Problem> {
    let survey = holdup_survey::survey(with.host, None, None);
    let hz = survey.kernel.hz.value().or(with.hz);
    let mut context = Context::of_this_host(with.host, hz.unwrap_or(HZ), with.workdir.to_owned());
    context.pg_bin = with.pg_bin;
    context.cancel = with.cancel.clone();
    let outcomes = measure(&mut context, step)?;
    described(with.host, &survey, hz, (&context.cpus, &outcomes))
}

/// Begins the machine file, so that it is known before anything is measured whether it can be written.
fn begin(file: &Path) -> Result<Output, Problem> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Folder::make_to_fill(folder).map_err(|e| refused(file, &e))?;
    }
    Output::create(file).map_err(|e| refused(file, &e))
}

fn end(mut output: Output, file: &Path, text: &str) -> Result<(), Problem> {
    output.write_all(text.as_bytes()).and_then(|()| output.finish()).map_err(|e| refused(file, &e))
}

fn refused(file: &Path, why: &io::Error) -> Problem {
    Problem::host(format!("machine file {}", file.display()), why.to_string()).hint("give another file with -o")
}

fn described(
    host: &Host,
    survey: &Survey,
    hz: Option<u32>,
    (cpus, outcomes): (&[CpuTopology], &[Outcome]),
) -> Result<Described, Problem> {
    let (topology, topology_source) = topology(cpus);
    let (kernel, version, words) = kernel(survey, hz.unwrap_or(HZ), topology.cpus())?;
    // The host is the running one.
    let kernel = Kernel { arch: Arch::find(std::env::consts::ARCH).unwrap_or(kernel.arch), ..kernel };
    let parameters = parameters(outcomes);
    let mut summary = format!("{} CPUs, {words}", topology.cpus());
    if hz.is_none() {
        summary.push_str(&format!(", {HZ} ticks a second assumed"));
    }
    let text = Described {
        name: "this-host".to_owned(),
        summary: short(&summary),
        memory_bytes: ((holdup_host::machine(host).memory_bytes >> 30).max(1)) << 30,
        topology_source,
        version,
        // Reading the file sets the costs by the parameters.
        machine: Machine { topology, costs: Costs::DEFAULT, kernel },
        parameters,
    }
    .to_toml();
    // What is written must be read again; the machine is the one that the file gives.
    Described::parse("this-host", &text)
}

/// Costs of an emulator are not taken for those of the machine that it emulates.
fn mark_emulated(parameters: &mut [Parameter]) {
    for parameter in parameters.iter_mut().filter(|p| p.provenance == Provenance::Measured) {
        let how = parameter.source.trim_start_matches("measured:");
        parameter.source = short(&format!("measured: emulated, no cost of hardware:{how}"));
    }
}

/// At most 500 bytes without control characters, as machine files want it.
fn short(text: &str) -> String {
    let mut out: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while out.len() > LONGEST {
        out.pop();
    }
    out
}

/// The CPUs as a regular tree where they are one.
fn topology(cpus: &[CpuTopology]) -> (Topology, String) {
    let all = cpus.len().max(1) as u32;
    let flat = Topology { smt: 1, cores: all, llcs: 1, nodes: 1 };
    let same = |of: fn(&CpuTopology) -> &Vec<u32>| {
        let first = of(cpus.first()?).len();
        (first > 0 && cpus.iter().all(|place| of(place).len() == first)).then_some(first as u32)
    };
    let Some((core, llc, node)) =
        same(|p| &p.core).zip(same(|p| &p.llc)).zip(same(|p| &p.node)).map(|((a, b), c)| (a, b, c))
    else {
        return (
            flat,
            "assumed: one cache and one node, because the host does not report them, or its CPUs differ".to_owned(),
        );
    };
    // A cache that reaches beyond a node, as guests may show it, is one of the node.
    let llc = llc.min(node);
    let regular = Topology { smt: core, cores: llc / core.max(1), llcs: node / llc.max(1), nodes: all / node.max(1) };
    match regular.cpus() == all && regular.cores > 0 {
        true => (regular, "measured: /sys/devices/system/cpu, the CPUs that holdup may use".to_owned()),
        false => (flat, "assumed: one cache and one node, because the CPUs make no regular tree".to_owned()),
    }
}

/// The kernel, its version as the simulator knows it, and a sentence on what was found.
fn kernel(survey: &Survey, hz: u32, cpus: u32) -> Result<(Kernel, String, String), Problem> {
    let hz = hz.clamp(10, 10_000);
    let own = survey.kernel.version.value();
    let release = survey.kernel.release.get().map_or("of an unknown release", String::as_str);
    // The nearest version that the simulator knows; 6.18 where the version is not known.
    let nearest =
        own.unwrap_or(KernelVersion::new(6, 18)).clamp(KernelVersion::OLDEST_READ, KernelVersion::NEWEST_READ);
    let version = nearest.to_string();
    let mut words = format!("kernel {release}");
    if own.is_none_or(|v| v != nearest) {
        words.push_str(&format!(", simulated as {version}"));
    }
    let model = survey.preempt.model.get().map(|model| model.word());
    let known = model.and_then(preempt::find).map(|found| Kernel::of(&version, found, hz, cpus));
    if let (Some(model), Some(Ok(kernel))) = (model, known) {
        return Ok((kernel, version, format!("{words}, preempt={model}")));
    }
    let kernel = Kernel::of_version(&version, cpus, hz)?;
    let why = model.map_or("the one in force is not known".to_owned(), |model| format!("{model} is not simulated"));
    words.push_str(&format!(", preempt={} assumed: {why}", kernel.preempt.id));
    Ok((kernel, version, words))
}

/// Every cost: measured, or as in the default machine with the reason.
fn parameters(outcomes: &[Outcome]) -> Vec<Parameter> {
    let parameter = |name: &'static str| {
        let outcome = outcomes.iter().find(|o| o.cost.name == name);
        if let Some((cost, Ok(samples))) = outcome.map(|o| (o.cost, &o.result)) {
            let whole = |ns: f64| (ns.round() as u64).min(1_000_000_000);
            let (low, high) = samples.range_ns();
            return Parameter {
                name,
                value_ns: whole(samples.median_ns()),
                range_ns: (whole(low), whole(high)),
                provenance: Provenance::Measured,
                source: short(&format!("measured: {} repeats: {}", samples.count(), cost.docs)),
                chosen_for: None,
            };
        }
        let why = match outcome.map(|o| &o.result) {
            Some(Err(problem)) => format!("{}: {}", problem.what, problem.why),
            _ => "no measurement of it".to_owned(),
        };
        let assumed = Parameter::assumed(name, Some(&why));
        Parameter { source: short(&assumed.source), ..assumed }
    };
    Costs::NAMES.iter().copied().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpu: u32, core: &[u32], llc: &[u32], node: &[u32]) -> CpuTopology {
        CpuTopology { cpu, core: core.to_vec(), llc: llc.to_vec(), node: node.to_vec() }
    }

    #[test]
    fn what_an_emulator_takes_is_marked() {
        let of = |provenance, source: &str| Parameter {
            name: "switch_ns",
            value_ns: 1,
            range_ns: (1, 1),
            provenance,
            source: source.to_owned(),
            chosen_for: None,
        };
        let mut all = [of(Provenance::Measured, "measured: 21 repeats"), of(Provenance::Assumed, "assumed: as before")];
        mark_emulated(&mut all);
        assert_eq!(all[0].source, "measured: emulated, no cost of hardware: 21 repeats");
        assert_eq!(all[1].source, "assumed: as before");
    }

    #[test]
    fn cpus_that_make_a_tree_are_one_and_others_are_flat() {
        let of = |cpus: &[CpuTopology]| {
            let (t, source) = topology(cpus);
            ([t.smt, t.cores, t.llcs, t.nodes], source.starts_with("measured: "))
        };
        let server = |cpu: u32| {
            let group = |n: u32| (0..n).map(|i| cpu / n * n + i).collect::<Vec<u32>>();
            place(cpu, &group(2), &group(4), &group(8))
        };
        let whole: Vec<CpuTopology> = (0..16).map(server).collect();
        assert_eq!(of(&whole), ([2, 2, 2, 2], true));
        assert_eq!(of(&[place(0, &[0], &[0, 1], &[0, 1]), place(1, &[1], &[0, 1], &[0, 1])]), ([1, 2, 1, 1], true));
        assert_eq!(of(&[place(0, &[], &[], &[]), place(1, &[], &[], &[])]), ([1, 2, 1, 1], false));
        assert_eq!(
            of(&[place(0, &[0, 1], &[0, 1, 2], &[0, 1, 2]), place(2, &[2], &[0, 1, 2], &[0, 1, 2])]).0,
            [1, 2, 1, 1]
        );
        assert_eq!(of(&[]), ([1, 1, 1, 1], false));
    }

    #[test]
    fn what_was_not_measured_has_the_default_and_its_reason() {
        let all = parameters(&[]);
        assert_eq!(all.len(), Costs::NAMES.len());
        assert!(all.iter().all(|p| p.provenance == Provenance::Assumed && p.source.ends_with("no measurement of it")));
        let cost = holdup_calibration::ALL[0];
        let reason = Problem::host("a CPU", "none\nis allowed");
        let all = parameters(&[Outcome { cost, result: Err(reason) }]);
        let p = all.iter().find(|p| p.name == cost.name).expect("every cost is there");
        assert_eq!(p.source, "assumed: as in the default machine; a CPU: none is allowed");
    }

    #[test]
    fn a_host_that_reports_nothing_gives_a_machine_file_that_is_read() {
        let host = holdup_host::fake::MemoryFs::new().host();
        let survey = holdup_survey::survey(&host, None, None);
        let described = described(&host, &survey, None, (&[], &[])).expect("assumed as a whole");
        assert_eq!(described.machine.topology.cpus(), 1);
        assert!(described.summary.contains("assumed"), "{}", described.summary);
        let again = Described::parse("again", &described.to_toml()).expect("it is read");
        assert_eq!(again.parameters, described.parameters);
    }

    #[test]
    fn every_measured_cost_is_one_of_a_machine() {
        for cost in holdup_calibration::ALL {
            assert!(Costs::NAMES.contains(&cost.name), "{}", cost.name);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_before_anything_is_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "x").expect("written");
        for file in [blocked.join("machine.toml"), folder.path().to_owned()] {
            let mut steps = 0;
            let request = CalibrateRequest {
                host: &Host::real(),
                file: &file,
                workdir: std::env::temp_dir(),
                pg_bin: None,
                cancel: Cancel::default(),
                step: &mut |_| steps += 1,
            };
            let problem = calibrate(request).expect_err("it cannot be written");
            assert_eq!((problem.kind, steps), (holdup_model::ProblemKind::Host, 0), "{problem}");
        }
        let files = std::fs::read_dir(folder.path()).expect("read").count();
        assert_eq!(files, 1, "no draft stays");
    }
}
