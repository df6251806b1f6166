//! Groups of senders and receivers that exchange short messages: the programs of `messenger`.
//!
//! A socket pair holds what the kernel's own size of each message leaves room for: a write waits while `sk_wmem_alloc` is
//! `sk_sndbuf` or more (net/core/sock.c `sock_alloc_send_pskb()`), and those that wait are all woken when a quarter is
//! left (net/unix/af_unix.c `unix_writable()`, `unix_write_space()`, v6.18). A pipe has 16 pages; a message that fits
//! goes into the last one (fs/pipe.c `pipe_write()`), and writers are woken when a whole page has become free
//! (`pipe_read()`), one of which wakes the next as long as there is room.

use super::{Files, Levels, Results, Workload, account};
use crate::machine::Machine;
use crate::network::true_size;
use crate::placement::Placement;
use crate::program::{Channel, Op, Program};
use crate::stats::WindowStats;
use crate::world::{ChannelSpec, Load, TaskSpec};
use holdup_catalogue::Sharing;
use holdup_catalogue::messenger::{self, Transport};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem};

pub(super) struct Messenger;

/// Messages received, begun before their write.
const RECEIVED: u8 = 0;
/// Messages sent.
const SENT: u8 = 1;
/// The program of receivers; those of senders come after it, one for each group.
const RECEIVER: usize = 0;
/// `net.core.wmem_default`, bytes.
const SEND_BUFFER_BYTES: u64 = 212_992;
/// A page of a pipe, and how many it has (PIPE_DEF_BUFFERS).
const PAGE_BYTES: u64 = 4096;
const PIPE_PAGES: u64 = 16;

/// The channel for messages of this size.
fn channel(transport: Transport, bytes: u64) -> Result<ChannelSpec, Problem> {
    let (most, refills_at) = match transport {
        Transport::SocketPair => {
            (SEND_BUFFER_BYTES.div_ceil(true_size(bytes)), SEND_BUFFER_BYTES / 4 / true_size(bytes))
        }
        Transport::Pipe => {
            let of_page = PAGE_BYTES / bytes;
            match of_page {
                0 => (PIPE_PAGES / bytes.div_ceil(PAGE_BYTES), 0),
                _ => (PIPE_PAGES * of_page, (PIPE_PAGES - 1) * of_page),
            }
        }
        Transport::Tcp => {
            return Err(
                Problem::host("transport tcp", "the simulator does not have it").hint("it has socketpair and pipe")
            );
        }
    };
    Ok(ChannelSpec { most: most.max(1) as u32, refills_at: Some(refills_at as u32), carries: Some(RECEIVED) })
}

fn receiver() -> Program {
    let ops = vec![Op::Receive(Channel::Mine), Op::Done(RECEIVED), Op::Jump(0)];
    Program::new("receiver", ops)
}

/// A sender of the group whose receivers have the channels from `first` on: one message to each, round and round.
fn sender(first: u32, receivers: u32) -> Program {
    let one = |number| [Op::Begin(RECEIVED), Op::Send { to: Channel::Of(first + number), tag: 0 }, Op::Done(SENT)];
    let mut ops: Vec<Op> = (0..receivers).flat_map(one).collect();
    ops.push(Op::Jump(0));
    Program::new("sender", ops)
}

impl Workload for Messenger {
    fn id(&self) -> &'static str {
        "messenger"
    }

    fn leaves_out(&self) -> &'static str {
        "writing and reading cost what they cost for a short message over a socket, with every transport and size; every \
         message is timed, and the last ones are not drained"
    }

    fn load(&self, parameters: &Parameters, _levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        let p = messenger::Parameters::read_simulated(parameters)?;
        let messenger::Parameters { groups, senders, receivers, .. } = p;
        let channel = channel(p.transport, p.size)?;
        let placement = Placement::of(p.placement, machine.topology)?;
        let processes = p.sharing == Sharing::Processes;
        let mut load = Load {
            programs: vec![receiver()],
            channels: vec![channel; (groups * receivers) as usize],
            marks: 2,
            ..Load::default()
        };
        for group in 0..groups {
            let first = group * receivers;
            load.programs.push(sender(first, receivers));
            for number in 0..receivers + senders {
                let process = if processes { load.tasks.len() as u32 } else { 0 };
                load.tasks.push(match number.checked_sub(receivers) {
                    None => TaskSpec {
                        inbox: Some(first + number),
                        pinned: placement.server,
                        ..TaskSpec::new(RECEIVER as u32, process)
                    },
                    Some(_) => TaskSpec { pinned: placement.client, ..TaskSpec::new(group + 1, process) },
                });
            }
        }
        Ok(load)
    }

    fn results(&self, parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        let (received, sent) = (&seen.marks[RECEIVED as usize], &seen.marks[SENT as usize]);
        let is_timed = parameters.boolean("timing").ok().flatten().unwrap_or(true);
        let latency = |id: &str, quantile| match is_timed {
            true => Measurement::percentile(id, &received.lengths, quantile, 1e3),
            false => Measurement::absent(id, "timing = off"),
        };
        let senders = account(&seen.roles[RECEIVER + 1..]);
        let receivers = account(&seen.roles[RECEIVER..=RECEIVER]);
        let each = |id: &str, of_senders: u64, of_receivers: u64, unit: f64| match (sent.count, received.count) {
            (0, _) | (_, 0) => Measurement::absent(id, "nothing was sent or received in the window"),
            (sent, received) => {
                let sum = of_senders as f64 / sent as f64 + of_receivers as f64 / received as f64;
                Measurement::new(id, sum / unit)
            }
        };
        let measurements = vec![
            Measurement::per_second("messages_per_s", received.count, length_ns),
            Measurement::absent("total_time_s", "messages = 0: they are sent until the window ends"),
            latency("latency_p50_us", 0.5),
            latency("latency_p99_us", 0.99),
            latency("latency_p999_us", 0.999),
            match received.lengths.range_ns() {
                Some((_, longest)) if is_timed => Measurement::new("latency_max_us", longest as f64 / 1e3),
                _ => Measurement::absent("latency_max_us", "no message was timed in the window"),
            },
            Measurement::new("messages_sent", (sent.before + sent.count) as f64),
            Measurement::new("messages_received", (received.before + received.count) as f64),
            each("voluntary_switches_per_message", senders.voluntary, receivers.voluntary, 1.0),
            each("involuntary_switches_per_message", senders.involuntary, receivers.involuntary, 1.0),
            each("cpu_us_per_message", senders.cpu_ns, receivers.cpu_ns, 1e3),
        ];
        let histograms = match is_timed {
            true => vec![NamedHistogram { name: "latency".to_owned(), histogram: received.lengths.clone() }],
            false => Vec::new(),
        };
        (measurements, histograms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_hold_what_the_kernel_holds() {
        let of = |transport, bytes| channel(transport, bytes).map(|c| (c.most, c.refills_at)).expect("known");
        // 100 bytes are charged as 768: hackbench's senders wait after 278 messages.
        assert_eq!(true_size(100), 768);
        assert_eq!(of(Transport::SocketPair, 100), (278, Some(69)));
        // 40 messages of 100 bytes fit into a page, one of 4096, and one of 5000 takes two.
        assert_eq!(of(Transport::Pipe, 100), (640, Some(600)));
        assert_eq!(of(Transport::Pipe, 4096), (16, Some(15)));
        assert_eq!(of(Transport::Pipe, 5000), (8, Some(0)));
        assert!(channel(Transport::Tcp, 100).is_err());
    }
}
