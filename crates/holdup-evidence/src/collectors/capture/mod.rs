//! TCP segments as they pass the links of the tasks under test, judged as Wireshark does.

mod namespace;
mod report;
mod sockets;

use super::network;
use crate::background::Background;
use crate::reading::{Meter, Produces, all_absent, increase};
use crate::{About, CollectContext, Collecting, Collector, Subject, tasks};
use holdup_host::Host;
use holdup_host::network::TasksNamespace;
use holdup_model::{Availability, Collected, Meta, Problem};
use namespace::{CAPTURING, NamespaceCapture};
use sockets::Sockets;
use std::collections::BTreeMap;

pub(crate) struct Capture;

static META: Meta = Meta {
    id: "capture",
    summary: "TCP segments of the tasks under test, with Wireshark's marks",
    docs: "A packet socket with a ring of 32 MB in each network namespace that a task under test is in or has a socket of, on all of its links. 192 \
           bytes of each packet are taken from its network header on, decoded and judged immediately, as `holdup packets` does \
           with a file; no packet is kept. A connection is counted where it is opened from (of one that was \
           open before the begin, the side with the higher port is taken for the opener), so that one between two namespaces counts once: retransmissions of its opener are seen whole, those of the other side only as far as \
           they arrive. On loopback links each packet is seen once. Super-packets (TSO, GRO) are judged as they are.\n\n\
           Packets for which the ring had no room are counted as lost; a judgement after a loss may take it for one of the \
           network. Beside the marks stand the kernel's own TCP counters of the same namespaces: where both count \
           retransmissions, the kernel's are right. Its numbers of the sockets that the tasks have at the end (tcp_info, as `ss -i` \
           shows them) are summed: of those that were there at the begin what was added.  Sockets that were closed before are left out.\n\n\
           The worst three connections of a namespace are traced over time, and the numbers of at most 1,000 are kept. Which are worst is \
           known at the end only, so 128 of each link are traced at a time: where more have trouble, a trace begins with the trouble, or is \
           given up for a worse one, with a note.\n\n\
           Needs CAP_NET_RAW, and CAP_SYS_ADMIN for namespaces other than holdup's own.",
    references: &[
        "net/packet/af_packet.c:tpacket_rcv (v6.18)",
        "net/ipv4/tcp.c:tcp_get_info (v6.18)",
        "net/ipv4/proc.c:snmp_seq_show, netstat_seq_show (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("tcp_connections", "1", "connections of which a segment was seen"),
    ("tcp_segments", "1", "segments of them"),
    ("tcp_payload_bytes", "bytes", "payload of them, what was sent again counted again"),
    ("tcp_marks", "1", "segments with a mark, by Wireshark's name of it"),
    ("tcp_marks_per_million", "1", "the same for a million segments"),
    ("tcp_sockets", "1", "TCP sockets of the tasks at the end"),
    ("tcp_info", "1", "increase of a count of tcp_info over these sockets, by its name"),
    ("tcp_info_bytes", "bytes", "the same of bytes that were sent, and sent again"),
    (
        "tcp_info_s",
        "s",
        "the same of times: with data to send, and blocked by the other side's window or the own buffer",
    ),
    ("tcp_kernel", "1", "increase of a TCP counter of these namespaces, by protocol and name; those that moved"),
];

/// Counters of the kernel, by protocol and name.
type Counters = BTreeMap<String, u64>;

/// The TCP counters of a namespace.
fn counters(namespace: &TasksNamespace) -> Result<Counters, String> {
    let mut counts = BTreeMap::new();
    for file in ["snmp", "netstat"] {
        network::parse(&namespace.read_text(file).map_err(|e| e.to_string())?, &mut counts);
    }
    counts.retain(|name, _| name.starts_with("Tcp"));
    Ok(counts)
}

struct Running {
    host: Host,
    captures: Vec<Background<NamespaceCapture>>,
    /// Each namespace, its counters at the begin and its sockets.
    before: Vec<(TasksNamespace, Result<Counters, String>, Sockets)>,
    subjects: Vec<Subject>,
    meter: Meter,
}

impl Collecting for Running {
    fn stop(self: Box<Self>) -> Collected {
        let Running { host, captures, before, subjects, mut meter } = *self;
        let captures: Result<Vec<NamespaceCapture>, String> = captures.into_iter().map(Background::end).collect();
        let captures = match captures {
            Ok(captures) => captures,
            Err(why) => return all_absent(META.id, PRODUCES, &why, meter.0),
        };
        let mut moved = Counters::new();
        let mut notes = Vec::new();
        let mut sum = sockets::Sum::default();
        let files =
            processes(&host, &subjects, &mut meter).map(|pids| meter.spend(&host, |_| host.socket_files(&pids)));
        for (namespace, before, of_sockets) in before {
            let now = files.clone().and_then(|files| meter.spend(&host, |_| sockets::read(&host, &namespace, &files)));
            sum.add(&of_sockets, &now);
            let after = meter.spend(&host, |_| counters(&namespace));
            match (before, after) {
                (Ok(before), Ok(after)) => {
                    for (name, now) in after {
                        let then = before.get(&name).copied().unwrap_or(0);
                        *moved.entry(name).or_default() += increase(then, now).unwrap_or(0);
                    }
                }
                (Err(why), _) | (_, Err(why)) => notes.push(format!("the kernel's counters: {why}")),
            }
        }
        report::report(captures, &moved, sum, notes, meter.0)
    }
}

/// The processes of the tasks under test.
fn processes(host: &Host, subjects: &[Subject], meter: &mut Meter) -> Result<Vec<u32>, String> {
    let members = meter.spend(host, |reader| tasks::processes(reader, subjects))?;
    Ok(members.iter().map(|(_, stat)| stat.pid).collect())
}

fn namespaces(context: &CollectContext, processes: &[u32]) -> Result<Vec<TasksNamespace>, String> {
    let found = context.host.network_namespaces(processes);
    if found.is_empty() { Err("no task under test shows its network namespace".to_owned()) } else { Ok(found) }
}

impl Collector for Capture {
    fn about(&self) -> About {
        About::of(&META, PRODUCES)
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        match context.host.packet_ring(None, CAPTURING) {
            Ok(_) => Availability::Ready,
            Err(why) => Availability::unavailable_but(
                why.to_string(),
                "run holdup as root, or with CAP_NET_RAW and CAP_SYS_ADMIN",
            ),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why: String| Problem::host("collector capture", why);
        let mut meter = Meter::default();
        let processes = processes(&context.host, &context.subjects, &mut meter).map_err(failed)?;
        let namespaces = namespaces(context, &processes).map_err(failed)?;
        let files = meter.spend(&context.host, |_| context.host.socket_files(&processes));
        let mut captures = Vec::with_capacity(namespaces.len());
        let mut before = Vec::with_capacity(namespaces.len());
        for namespace in namespaces {
            let ring = context.host.packet_ring(Some(&namespace), CAPTURING).map_err(|e| failed(e.to_string()))?;
            let counters = meter.spend(&context.host, |_| counters(&namespace));
            let of_sockets = meter.spend(&context.host, |_| sockets::read(&context.host, &namespace, &files));
            before.push((namespace, counters, of_sockets));
            let capture = Background::begin("capture", move |end| NamespaceCapture::default().watch(ring, end));
            captures.push(capture.map_err(failed)?);
        }
        let (host, subjects) = (context.host.clone(), context.subjects.clone());
        Ok(Box::new(Running { host, captures, before, subjects, meter }))
    }
}
