//! Messages between two ends: ping-pong, under load, one way, played back.

use crate::ping::apart;
use crate::ping::results;
use crate::ping::setup::Setup;
use crate::ping::sockets::{self, InNetwork};
use crate::ping::trial;
use holdup_host::Host;
use holdup_host::network::Topology;
use holdup_load::two_ends;
use holdup_load::{PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{ClosedLoop, Meta, Metric, Parameter, Parameters, Problem, Semantics, Think};

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Ping;

const META: Meta = Meta {
    id: "ping",
    summary: "messages between a client and a server (sockperf)",
    docs: "The client sends, the server receives and answers. In `ping-pong` a burst is sent, then its answers are \
           awaited, then the next burst is sent: a closed loop, in which a slow server delays the next request \
           and so hides what others would have waited. `under-load` and `playback` send by the clock regardless of what the server \
           end does, and one of `reply_every` messages is answered. `throughput` sends as fast as it can, or at a \
           rate, and nothing is answered.\n\n\
           Delivered is not sent: messages are counted where they are received, and what a full queue dropped is the \
           kernel's count at the receiving socket. Over the whole life of a trial, warm-up and end included, sent is \
           received and dropped together, exactly, for messages and for answers; a trial of which that is not true \
           is void. So after the window the client falls silent, and the server reads until all is accounted.\n\n\
           A message says itself whether it was sent while the window was open. Those that were count for latency, \
           whenever they or their answers come; rates count what was delivered in the window. Times are of one clock \
           at both ends, CLOCK_MONOTONIC, so that one way can be measured. Where messages have a time at which they are \
           due, latency counts from that time, and `send_lag` is how late they were sent; in `ping-pong` it counts \
           from when the message was really sent, also with a rate. Round trips are whole, not halved.\n\n\
           Over UDP an answer is waited for no longer than 200 ms; one that comes later still counts, with all of its \
           time. Messages of 14 bytes and more hold 64 bits of time; from 8 bytes on it is 32 bits, so that a latency \
           is known modulo 4.29 s; shorter ones have no one-way time, and below 4 bytes no order. Over \
           TCP small messages are put together (Nagle) in `throughput` only. One message is one system call at the \
           sender; at the receiver as well with datagrams, while a read of a stream takes all that is there.\n\n\
           With [hosts] the server is on the host under test and the client on one other, over UDP or TCP. Arrivals are \
           placed by the client's clock, and one-way times are given only where they exceed what the comparison of both \
           clocks may be off. Datagrams that the network lost are counted and do not make a trial void.\n\n\
           Limits: what the kernel does to deliver over loopback runs in the sender's context, so it is part of the \
           client's CPU time. CPU times are over what was delivered between the moments when the end itself saw the \
           window open and close. A rate that the client cannot keep is reason in a note.",
    references: &[
        "sockperf 3.7 (ping-pong, under-load, throughput, playback), whose throughput counts what was sent",
        "getsockopt SO_MEMINFO: net/core/sock.c sk_get_meminfo; udp(7); tcp(7); unix(7)",
        "G. Tene, How NOT to Measure Latency, 2013: coordinated omission",
    ],
};

impl Workload for Ping {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        holdup_catalogue::ping::Parameters::ALL
    }

    fn metrics(&self, _chosen: &[MetricChoice]) -> Vec<Metric> {
        results::metrics()
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("delivered_per_s")
    }

    fn semantics(&self) -> Semantics {
        Semantics {
            closed_loops: vec![ClosedLoop {
                in_flight: vec!["burst".to_owned()],
                closed_when: vec![("mode".to_owned(), "ping-pong".into())],
                throughput: "messages_per_s".to_owned(),
                latency: "latency".to_owned(),
                think: Think::Unmeasured,
            }],
            diagnostics: Vec::new(),
        }
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn has_two_ends(&self) -> bool {
        true
    }

    fn check_two_ends(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        crate::ping::REFERENCE_TOOLS.check_two_ends(parameters)?;
        Setup::read(parameters, host)?.check_two_ends()
    }

    /// Nothing is prepared, so all uses share that.
    fn session_key(&self, _parameters: &Parameters) -> String {
        String::new()
    }

    fn check(&self, host: &Host, parameters: &Parameters) -> Result<(), Problem> {
        let own = || Setup::read(parameters, host).map(drop);
        crate::ping::REFERENCE_TOOLS.check(host, parameters, own)
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        let run: two_ends::RunClient<_> =
            |server, host, trial| apart::run(server, &Setup::read(trial.parameters, host)?, trial);
        if let Some(session) = two_ends::prepare(&Ping, &context, |_| false, run)? {
            return Ok(session);
        }
        crate::ping::REFERENCE_TOOLS.prepare(context, |context| {
            for parameters in context.combinations {
                // Made and closed again, so that what cannot be had is reported before the first trial.
                let setup = Setup::read(parameters, context.host)?;
                let network = setup.network.make(context.host)?;
                drop(sockets::endpoints(&setup, &InNetwork(&network))?);
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
        let network = setup.network.make(&self.host)?;
        let before = network.counters()?;
        let ends = sockets::endpoints(&setup, &InNetwork(&network))?;
        let mut result = trial::run(&setup, ends, trial)?;
        if setup.network.topology != Topology::Host {
            let losses = network.counters()?.minus(&before).losses();
            result.notes.extend(network.facts().into_iter().map(|(name, value)| format!("{name}: {value}")));
            result.notes.extend(losses.into_iter().map(|(counter, n)| format!("the network counted {n} {counter}")));
        }
        Ok(result)
    }
}
