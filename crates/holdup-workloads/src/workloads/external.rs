//! Original tools, for comparison with holdup's own workloads.

use crate::external::setup::Setup;
use crate::external::{Run, metrics, tools, trial, version};
use holdup_catalogue::external::Tool;
use holdup_host::Host;
use holdup_load::{PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, Fact, Measured, Meta, Metric, Parameter, Parameters, Problem};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct External;

const META: Meta = Meta {
    id: "external",
    summary: "reference tools, with their numbers in holdup's units",
    docs: "Each trial runs one tool once, as it is installed here, and reads its output into metrics with the ids and \
           units of holdup's own workloads, so that one plan can hold both. What a tool does not measure is absent \
           with that reason. Each tool has its own headline, so the plan names the primary metric.\n\n\
           The tools: cyclictest (compare with wakeup), hackbench and perf-bench (messenger), schbench (request), iperf3 \
           and uperf (stream), sockperf (ping), sysbench. A parameter that is not given is not passed on: the tool's own \
           default holds. One that a tool does not know is an error. What else a tool can do goes to `arguments`.\n\n\
           The window is the tool's whole run, its start and end included; the plan's warm-up does not apply. \
           sockperf leaves out its own first 400 ms and last 50 ms. sockperf and uperf take about 2 s more than \
           they are given, without load, and collectors see these too. The plan's duration goes to the tool, in whole seconds \
           where it takes no parts; hackbench, perf-bench, sysbench mutex and cyclictest with `loops` do fixed work instead. \
           cyclictest runs with --default-system: it does not touch /dev/cpu_dma_latency.\n\n\
           A server is started on a free port of 127.0.0.1 and ended with the trial (uperf's listens on all \
           addresses, it has no option for that). CPU time is that of client and server with what they started. \
           `placement` sets the CPUs that they may run on, as taskset(1) does: the client's are those of the first side, the server's of the second; a \
           tool without a server gets both sides'.\n\n\
           Sent is not delivered: for UDP, what arrived and what was dropped are counted by the kernel for the whole \
           network namespace, or by sockperf's server. What is known to be wrong with a tool's numbers is in the \
           notes of each trial. Versions are facts that must not move.",
    references: &[
        "cyclictest(8), hackbench(8) of rt-tests 2.4; perf-bench(1) of Linux 6.1; sockperf 3.7; uperf 1.0.8 (c93e902); \
         schbench (24e32b8); iperf3(1) 3.12; sysbench 1.0.20: formats as these print them",
        "net/ipv4/proc.c:snmp_seq_show, Linux 6.18; wait4(2) on CPU time; taskset(1)",
    ],
};

impl Workload for External {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::external::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        metrics::all()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("duration_s")
    }

    fn probe(&self, _host: &Host, _postgres: &PostgresOptions) -> Availability {
        version::availability()
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        // A problem of the parameters is reported now, not in a trial.
        let setup = Setup::read(parameters)?;
        setup.tool.invocation(&setup, &Run { duration_ns: 1, port: 1 })?;
        setup.placement(host)?;
        version::find(setup.tool.about()).map(drop)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        let primary = context.metrics.iter().find(|m| m.primary).map(|m| m.id.clone());
        let mut session =
            Session { host: context.host.clone(), primary, programs: BTreeMap::new(), versions: Vec::new() };
        for parameters in context.combinations {
            let setup = Setup::read(parameters)?;
            // A problem of the parameters is reported now, not in a trial.
            let invocation = setup.tool.invocation(&setup, &Run { duration_ns: 1, port: 1 })?;
            session.check_primary(&setup, invocation.fixed_work)?;
            let about = setup.tool.about();
            if !session.programs.contains_key(&about.tool) {
                let file = version::find(about)?;
                session.versions.push(version::read(about, &file, context.host, &context.cancel));
                session.programs.insert(about.tool, file);
            }
        }
        Ok(Box::new(session))
    }
}

struct Session {
    host: Host,
    /// The metric without which a trial does not count.
    primary: Option<String>,
    /// The tools' files.
    programs: BTreeMap<Tool, PathBuf>,
    versions: Vec<Fact>,
}

impl Session {
    /// The duration is a headline only where the work is fixed: elsewhere it is what the plan says.
    fn check_primary(&self, setup: &Setup, fixed_work: bool) -> Result<(), Problem> {
        let Some(primary) = &self.primary else { return Ok(()) };
        let about = setup.tool.about();
        let measured = setup.tool.measures(setup);
        if measured.contains(&primary.as_str()) || primary == "cpu_s" || (primary == "duration_s" && fixed_work) {
            return Ok(());
        }
        let named = setup.mode.map(|mode| format!(" in mode {mode}")).unwrap_or_default();
        let why = match primary.as_str() {
            "duration_s" => format!("{}{named} runs as long as it is asked to", about.tool),
            _ => format!("{}{named} does not measure it", about.tool),
        };
        Err(Problem::usage(format!("primary metric {primary}"), why)
            .hint(format!("name one of its metrics as the primary one: {}", measured.join(", "))))
    }
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        let files = self.programs.iter().map(|(tool, file)| version::file_fact(tools::find(*tool).about(), file));
        self.versions.iter().cloned().chain(files).collect()
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters)?;
        let file = self.programs.get(&setup.given.tool);
        let file = file.ok_or_else(|| Problem::internal("tool", "the session was not prepared for it"))?;
        let result = trial::run(&setup, file, &self.host, trial)?;
        let primary = result.measurements.iter().find(|m| Some(&m.metric) == self.primary.as_ref());
        match primary.map(|m| &m.value) {
            Some(Measured::Absent(why)) => Err(Problem::trial(
                format!("primary metric {}", self.primary.as_deref().unwrap_or_default()),
                why.clone(),
            )),
            _ => Ok(result),
        }
    }
}
