//! Groups of senders and receivers that exchange short messages.

use crate::messenger;
use crate::messenger::apart;
use crate::messenger::setup::Setup;
use holdup_host::Host;
use holdup_load::combine::Combination;
use holdup_load::{PrepareContext, Prepared, Shared, TrialContext, TrialResult, Workload, client_hosts, two_ends};
use holdup_model::plan::MetricChoice;
use holdup_model::{Meta, Metric, Parameter, Parameters, Problem};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Messenger;

const META: Meta = Meta {
    id: "messenger",
    summary: "groups of senders and receivers of messages (hackbench)",
    docs: "Each sender writes `messages` messages to each receiver of its group, one receiver after the other; each \
           receiver has one socket pair, pipe or connection that all senders of its group write to. One system call \
           moves one message on each side. All begin at the same time. With `messages = 0` they continue until the window ends, \
           which is what a background load does; its own rate is recorded.\n\n\
           total_time_s goes from the common start to the last message received. hackbench and perf bench also wait \
           for their tasks to end, which is not part of it here. There is no warm-up and no duration where the work \
           is fixed: the window is the work.\n\n\
           A timed message carries CLOCK_MONOTONIC from before its write, and its latency ends after the read that \
           completed it, so it holds the time in which the sender waited for room. One of `sample_every` messages is \
           timed, at random distances.\n\n\
           Sent and received are counted one by one and must be equal at the end: senders stop, receivers read until \
           no task writes any more. A trial that lost a message is void.\n\n\
           With [hosts] the receivers are on the host under test, over TCP, and the groups' senders in equal parts on others. \
           Latency and total_time_s need both clocks then, and are given where they exceed what their comparison may be off.\n\n\
           Limits: pipes and socket pairs measure their own locks and copies as well as the scheduler. Switches and \
           CPU time are each task's own accounts, taken when it first sees that the window is open or closed. Over \
           tcp, several senders share a connection, as in hackbench; the kernel may then cut a message in two, and \
           timed messages that were cut in their first 16 bytes are counted in a note and not measured.",
    references: &[
        "rt-tests 2.4 hackbench(8): groups, file descriptors, loops, data size; perf-bench(1) sched messaging",
        "getrusage(2) RUSAGE_THREAD; clock_gettime(2) CLOCK_MONOTONIC; pipe(7) PIPE_BUF; getrlimit(2) RLIMIT_NOFILE",
    ],
};

impl Workload for Messenger {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::messenger::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        messenger::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("messages_per_s")
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn has_two_ends(&self) -> bool {
        true
    }

    fn check_two_ends(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        crate::messenger::REFERENCE_TOOLS.check_two_ends(parameters)?;
        Setup::read(parameters, host)?.check_two_ends()
    }

    fn shared(&self) -> Option<&'static Shared> {
        Some(&SHARED)
    }

    /// Nothing is made for a session, so all uses share one.
    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let own = || Setup::read(parameters, host).map(drop);
        crate::messenger::REFERENCE_TOOLS.check(host, parameters, own)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        let run: two_ends::RunClient<_> =
            |server, host, trial| apart::run(server, &Setup::read(trial.parameters, host)?, trial);
        if let Some(session) = two_ends::prepare(&Messenger, &context, has_fixed_work, run)? {
            return Ok(session);
        }
        crate::messenger::REFERENCE_TOOLS.prepare(context, |context| {
            for parameters in context.combinations {
                Setup::read(parameters, context.host)?;
            }
            Ok(Box::new(Session { host: context.host.clone() }))
        })
    }
}

fn has_fixed_work(parameters: &Parameters) -> bool {
    !matches!(parameters.integer("messages"), Ok(None | Some(0)))
}

static SHARED: Shared = Shared {
    divide: |parameters, hosts| {
        if has_fixed_work(parameters) {
            let why = "fixed work is done at another time on each host, and the window is the work";
            return Err(Problem::usage(format!("messages with {hosts} client hosts"), why).hint("messages = 0"));
        }
        client_hosts::divide(parameters, "groups", hosts)
    },
    combine: |metric| Combination::usual(metric, "messages_per_s"),
};

struct Session {
    host: Host,
}

impl Prepared for Session {
    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters, &self.host)?;
        messenger::run(&setup, trial)
    }
}
