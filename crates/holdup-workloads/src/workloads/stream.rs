//! N connections that carry data for a while, over a network that holdup makes.

use crate::external::reference_tool::{ReferenceTools, carry};
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::network::NetworkSpec;
use holdup_load::peer::Server;
use holdup_load::two_ends;
use holdup_load::{PostgresOptions, PrepareContext, Prepared, Shared, TrialContext, TrialResult, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, Meta, Metric, Parameter, Parameters, Problem};
use holdup_stream::setup::Setup;
use holdup_stream::strand::pass;
use holdup_stream::{apart, results, trial};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Stream;

/// For reading a profile before it is known how long a trial is.
const ANY_DURATION_NS: u64 = 1_000_000_000;

const META: Meta = Meta {
    id: "stream",
    summary: "connections that carry data (iperf3, uperf)",
    docs: "Both ends are holdup's own: `connections` connections are made before the warm-up, and from then until after \
           the window one end of each sends transfers of `size` bytes, one after another, while the other receives. \
           With mode `write` the client sends, with `read` the server, with `both` there are as many connections \
           again for the other direction. A transfer of more than 1 MB is made of several calls.\n\n\
           Only what was received counts as throughput. What was sent, and what the kernel dropped by its own counters, \
           stand beside it, and over the whole life of a trial they must add up: TCP and Unix sockets are drained to \
           their end and must have carried every byte; datagrams must have arrived or have been dropped by a socket \
           or a link that counts. A trial in which they do not is void.\n\n\
           The time of a transfer is from the moment at which it was due to the moment at which its last byte was \
           received, on one clock; it holds the time that its bytes lay in socket buffers. With a `rate` transfers are due \
           at even distances, and one that begins late because others were slow counts from when it was due. \
           Transfers of less than 8 bytes carry no moment, and have no such time.\n\n\
           A worker with one connection waits in its calls, one with several in epoll(7). There are as many workers at \
           each end as connections, but 64 at most, unless `workers` says otherwise.\n\n\
           CPU seconds per 10^9 bytes are those of the workers between the edges of the window, by their own clocks, \
           with what the kernel did in their name, mostly also on behalf of the other end: on one host the softirq that \
           delivers runs in the sender. What ksoftirqd did belongs to no worker.\n\n\
           With [hosts] one end of each connection is on the host under test, and the end that connects on others, over TCP; they \
           have equal numbers, with `workers` on each, and the time of a transfer is not measured.\n\n\
           With a `profile`, which is read as uperf reads it, connections, protocol, size, mode, workers, sharing and rate \
           are those of the profile.",
    references: &[
        "uperf 1.0.8; iperf3(1) 3.12; netperf 2.7",
        "tcp(7); udp(7); unix(7); socket(7); epoll(7); network_namespaces(7)",
        "G. Tene, How NOT to measure latency, 2013",
    ],
};

impl Workload for Stream {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::stream::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        results::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("throughput_gbit_per_s")
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn has_two_ends(&self) -> bool {
        true
    }

    fn check_two_ends(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        REFERENCE_TOOLS.check_two_ends(parameters)?;
        let setup = Setup::read(parameters, host)?;
        if setup.is_apart || setup.network != NetworkSpec::HOST {
            return Err(Problem::usage("network with [hosts]", "the network is the one between the hosts")
                .hint("leave network and mtu out"));
        }
        apart::check(&setup, "[hosts]")
    }

    fn shared(&self) -> Option<&'static Shared> {
        Some(&results::SHARED)
    }

    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn probe(&self, host: &Host, _postgres: &PostgresOptions) -> Availability {
        let failure = |topology| match holdup_host::network::probe(topology, host) {
            Availability::Ready => None,
            Availability::Degraded { reason } | Availability::Unavailable { reason, .. } => Some(reason),
        };
        let Some(veth) = failure(Topology::Veth) else { return Availability::Ready };
        let reason = match failure(Topology::Loopback) {
            None => format!("only with networks host and loopback: {veth}"),
            Some(reason) => format!("only with network host: {reason}"),
        };
        Availability::Degraded { reason }
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let own = || {
            let setup = Setup::read(parameters, host)?;
            setup.profile.as_ref().map_or(Ok(()), |path| pass::read(path, &setup, ANY_DURATION_NS).map(drop))
        };
        REFERENCE_TOOLS.check(host, parameters, own)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        let run: two_ends::RunClient<_> =
            |server, host, trial| apart::run(server, &Setup::read(trial.parameters, host)?, host, trial);
        if let Some(session) = two_ends::prepare(&Stream, &context, |_| false, run)? {
            return Ok(session);
        }
        REFERENCE_TOOLS.prepare(context, |context| {
            let mut seen = Vec::new();
            for parameters in context.combinations {
                let setup = Setup::read(parameters, context.host)?;
                if setup.is_apart {
                    apart::check(&setup, "network peer")?;
                    let _reached = two_ends::reach(context.host, &apart::peer_of(context.host)?, &context.cancel)?;
                    continue;
                }
                if let Some(path) = &setup.profile {
                    pass::read(path, &setup, ANY_DURATION_NS)?;
                }
                // Each kind of network is tried once, so that a session does not fail in its midst.
                if !seen.contains(&setup.network) {
                    setup.network.make(context.host)?;
                    seen.push(setup.network);
                }
            }
            Ok(Box::new(Session { host: context.host.clone() }))
        })
    }
}

struct Session {
    host: Host,
}

impl Prepared for Session {
    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let setup = Setup::read(trial.parameters, &self.host)?;
        match &setup.profile {
            _ if setup.is_apart => {
                let server = two_ends::reach(&self.host, &apart::peer_of(&self.host)?, &trial.cancel)?;
                apart::run(Server::new(server), &setup, &self.host, trial)
            }
            None => trial::run(&setup, &self.host, trial),
            Some(path) => pass::run(&setup, path, &self.host, trial),
        }
    }
}

/// iperf3 and uperf: both carry data over connections for a while.
const REFERENCE_TOOLS: ReferenceTools = ReferenceTools { metrics: results::METRICS, translate, derive: |_| Vec::new() };

fn translate(tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let refuse = |why: &str, hint: &str| Err(Problem::usage(format!("by {tool}"), why).hint(hint));
    if own.text("network")? != Some("host") {
        return refuse("it runs in the namespace of the host", "network = host");
    }
    if own.text("profile")?.is_some() {
        return refuse("a profile is not handed on to it", "leave profile out, or run it with `external`");
    }
    match (own.text("protocol")?, own.text("mode")?) {
        (Some("tcp" | "udp"), Some("write" | "read")) => {}
        (Some("tcp" | "udp"), _) => return refuse("it is run in one direction", "mode = write or read"),
        _ => return refuse("it is run over TCP and UDP only", "protocol = tcp or udp"),
    }
    let mut names = vec![
        ("connections", "connections"),
        ("protocol", "protocol"),
        ("mode", "mode"),
        ("size", "size"),
        ("placement", "placement"),
    ];
    match tool {
        "uperf" => names.push(("sharing", "sharing")),
        // One process; before 3.16 one thread.
        _ if own.text("sharing")? == Some("processes") => return refuse("it is one process", "sharing = threads"),
        _ => {}
    }
    let mut theirs = carry(own, &names);
    if own.get("size").is_none() {
        // The default of holdup's own engine.
        theirs.set("size", if own.text("protocol")? == Some("udp") { 1472 } else { 131_072 });
    }
    Ok(theirs)
}
