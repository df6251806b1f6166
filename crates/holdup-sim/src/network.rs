//! Networks as tasks see them: which task works on a segment on its way, and which queues hold it.
//!
//! Over loopback, veth and a bridge the softirq that delivers runs in the call that sends, with preemption off
//! (net/core/dev.c `__dev_xmit_skb()`, `process_backlog()`; kernel/softirq.c `__local_bh_enable_ip()`, v6.18). Through a
//! switch in user space (Open vSwitch with the netdev datapath) a thread takes each segment and sends it on. Between two
//! guests the sender's vhost worker takes it from the virtio ring, forwards it and puts it into the ring of the other
//! guest's tap, which drops what does not fit (drivers/net/tun.c `tun_net_xmit()`); the other guest's vhost worker copies
//! it, and where the interrupt cannot be injected immediately, a work item does it on a kworker of that CPU
//! (virt/kvm/eventfd.c `irqfd_wakeup()`, `schedule_work()`). Neither vhost worker returns to user mode, so it makes room
//! for a fair task at `cond_resched()`, at preemption points, or where a tick has promoted the request.

use crate::machine::{Costs, Machine};
use crate::placement::Placement;
use crate::program::{Channel, MarkId, Op, Program};
use crate::random::Span;
use crate::stats::WindowStats;
use crate::workloads::{Account, account};
use crate::world::{ChannelSpec, Load, TaskSpec};
use holdup_catalogue::Sharing;
use holdup_catalogue::stream::{Network, Protocol};
use holdup_model::Problem;

/// Segments received; counted by task.
pub(crate) const RECEIVED: MarkId = 0;
/// Transfers of which the last segment was received, begun when they were sent.
pub(crate) const TRANSFER: MarkId = 1;
/// Segments sent.
pub(crate) const SENT: MarkId = 2;
/// Segments that a full queue dropped.
pub(crate) const LOST: MarkId = 3;

/// The last segment of a transfer.
const LAST: u8 = 1;

/// Programs by end and by what they do; those of switches come after them.
const CLIENT_SENDS: usize = 0;
const SERVER_RECEIVES: usize = 1;
const SERVER_SENDS: usize = 2;
const CLIENT_RECEIVES: usize = 3;

/// The most bytes of a segment: what segmentation offload hands down in one piece (GSO_LEGACY_MAX_SIZE).
const SEGMENT_BYTES: u64 = 65_536;
/// `net.core.rmem_default` and `wmem_default`, bytes.
const BUFFER_BYTES: u64 = 212_992;
/// What a TCP connection has under way at most, bytes: of the order that its window grows to on a fast network.
const WINDOW_BYTES: u64 = 512 << 10;
/// Descriptors of a virtio ring, and packets of a tap's.
const VIRTIO_RING: u32 = 256;
const TAP_RING: u32 = 500;

/// Who works on a segment between its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The call that sends.
    Sender,
    /// A thread in user space.
    Switch,
    /// vhost workers of two guests, and a kworker.
    Guests,
}

/// Flows over a network.
#[derive(Debug, Clone)]
pub(crate) struct Flows {
    pub(crate) protocol: Protocol,
    /// Bytes of a transfer.
    pub(crate) bytes: u64,
    /// Flows from the client to the server, and back.
    pub(crate) there: u32,
    pub(crate) back: u32,
    /// True if each task is its own process.
    pub(crate) processes: bool,
    placement: holdup_catalogue::Placement,
    way: Way,
}

/// What a socket buffer charges for this number of bytes: the data with `skb_shared_info` in a slab of a power of two, and
/// `struct sk_buff` (SKB_TRUESIZE, include/linux/skbuff.h, v6.18); large ones lie in pages.
pub(crate) fn true_size(bytes: u64) -> u64 {
    match bytes.next_multiple_of(64) + 320 {
        small @ 0..=8192 => small.next_power_of_two() + 256,
        large => large + 256,
    }
}

impl Flows {
    /// Flows of an arm.
    pub(crate) fn new(
        protocol: Protocol,
        network: Network,
        sharing: Sharing,
        placement: holdup_catalogue::Placement,
        (bytes, [there, back]): (u64, [u32; 2]),
    ) -> Self {
        let way = match network {
            _ if protocol == Protocol::Unix => Way::Sender,
            Network::Host | Network::Loopback | Network::Veth | Network::Bridge => Way::Sender,
            Network::OpenVSwitch => Way::Switch,
            Network::Peer => Way::Guests,
        };
        Flows { protocol, bytes: bytes.max(1), there, back, processes: sharing == Sharing::Processes, placement, way }
    }

    /// Segments of a transfer.
    pub(crate) fn segments(&self) -> u64 {
        self.bytes.div_ceil(SEGMENT_BYTES)
    }

    /// Bytes of a segment; all of a transfer are alike.
    pub(crate) fn segment_bytes(&self) -> f64 {
        self.bytes as f64 / self.segments() as f64
    }

    /// Segments of TCP that a connection has under way.
    fn window(&self) -> u32 {
        (WINDOW_BYTES / true_size(self.bytes.min(SEGMENT_BYTES))).clamp(1, 1024) as u32
    }

    fn acknowledges(&self) -> bool {
        self.way != Way::Sender && self.protocol == Protocol::Tcp
    }

    /// What a receiver's socket holds. A sender over TCP waits until a third is free
    /// (include/net/sock.h `sk_stream_is_writeable()`), one over a Unix socket until a quarter is left; UDP drops.
    fn inbox(&self) -> ChannelSpec {
        let of_buffer = BUFFER_BYTES.div_ceil(true_size(self.bytes.min(SEGMENT_BYTES))) as u32;
        let (most, refills_at) = match self.protocol {
            Protocol::Tcp => (self.window(), self.window() * 2 / 3),
            Protocol::Unix => (of_buffer, of_buffer / 4),
            Protocol::Udp => (of_buffer, 0),
        };
        ChannelSpec { most, refills_at: Some(refills_at), carries: Some(TRANSFER) }
    }

    fn copy_ns(&self, costs: &Costs) -> u32 {
        (self.segment_bytes() * costs.net_copy_ns as f64 / 1024.0) as u32
    }

    /// One end that sends: to its peer, or into a ring.
    fn sender(&self, costs: &Costs, to: Channel) -> Vec<Op> {
        let (copy, stack) = (self.copy_ns(costs), costs.net_segment_ns as u32);
        let softirq_ns = if self.way == Way::Sender && self.protocol != Protocol::Unix { stack } else { 0 };
        let waits = self.protocol != Protocol::Udp || self.way != Way::Sender;
        let mut ops = Vec::new();
        if self.acknowledges() {
            // What may be under way before the first acknowledgement.
            ops.push(Op::Send { to: Channel::Mine, tag: 0 });
            ops.push(Op::Repeat { to: 0, counter: 0, times: self.window() });
        }
        let begin = ops.len() as u32;
        ops.push(Op::Begin(TRANSFER));
        let mut segment = |tag| {
            let at = ops.len() as u32;
            if self.acknowledges() {
                ops.push(Op::Receive(Channel::Mine));
            }
            ops.push(Op::Transmit { to, tag, work_ns: copy + stack, softirq_ns, waits, onward: false });
            ops.push(Op::Done(SENT));
            if !waits {
                let next = ops.len() as u32 + 3;
                ops.extend([Op::IfLost(next - 1), Op::Jump(next), Op::Done(LOST)]);
            }
            if tag != LAST {
                ops.push(Op::Repeat { to: at, counter: 0, times: (self.segments() - 1) as u32 });
            }
        };
        if self.segments() > 1 {
            segment(0);
        }
        segment(LAST);
        ops.push(Op::Jump(begin));
        ops
    }

    fn receiver(&self, costs: &Costs) -> Vec<Op> {
        let stack = if self.way == Way::Sender { 0 } else { costs.net_segment_ns as u32 };
        let mut ops = vec![Op::Take { from: Channel::Mine, work_ns: stack + self.copy_ns(costs) }, Op::Done(RECEIVED)];
        if self.acknowledges() {
            ops.push(Op::Send { to: Channel::Sender, tag: 0 });
        }
        let done = ops.len() as u32 + 2;
        ops.extend([Op::IfTag { tag: LAST, to: done }, Op::Jump(0), Op::Done(TRANSFER), Op::Jump(0)]);
        ops
    }

    /// A task that forwards segments; over TCP the sender is notified of those that are dropped.
    fn onward(&self, before: &[Op], to: Channel, (work_ns, softirq_ns): (u32, u32), waits: bool) -> Vec<Op> {
        let mut ops = before.to_vec();
        ops.push(Op::Transmit { to, tag: 0, work_ns, softirq_ns, waits, onward: true });
        if !waits {
            let lost = ops.len() as u32 + 2;
            ops.extend([Op::IfLost(lost), Op::Jump(0), Op::Done(LOST)]);
            if self.acknowledges() {
                ops.push(Op::Send { to: Channel::Sender, tag: 0 });
            }
        }
        ops.push(Op::Jump(0));
        ops
    }

    /// The tasks and channels of a switch for one direction: the channel that senders send to.
    fn switch(&self, load: &mut Load, machine: &Machine) -> Channel {
        let costs = &machine.costs;
        let (copy, stack, forward) = (self.copy_ns(costs), costs.net_segment_ns as u32, costs.net_forward_ns as u32);
        let take = |work_ns| Op::Take { from: Channel::Mine, work_ns };
        let loses = self.protocol == Protocol::Udp;
        let ring = |most| ChannelSpec { most, refills_at: None, carries: Some(TRANSFER) };
        let first = load.channels.len() as u32;
        let mut add = |name: &str, ops: Vec<Op>, spec: TaskSpec| {
            let program = load.programs.len() as u32;
            load.programs.push(Program { name: name.to_owned(), role: "switch".to_owned(), ops });
            load.tasks.push(TaskSpec { program, process: load.tasks.len() as u32, session: 1, ..spec });
        };
        if self.way == Way::Switch {
            let before = [take(copy), Op::Compute(Span::Fixed(costs.net_forward_ns))];
            let ops = self.onward(&before, Channel::SenderPeer, (copy, stack), !loses);
            add("switch", ops, TaskSpec { inbox: Some(first), ..TaskSpec::default() });
            load.channels.push(ring(TAP_RING));
            return Channel::Of(first);
        }
        let kernel = TaskSpec { kernel: true, ..TaskSpec::default() };
        let tap = first + 1;
        let sends = self.onward(&[take(copy)], Channel::Of(tap), (forward, 0), false);
        add("vhost", sends, TaskSpec { inbox: Some(first), ..kernel });
        let receives = self.onward(&[take(copy)], Channel::OfCpu(tap + 1), (0, 0), true);
        add("vhost", receives, TaskSpec { inbox: Some(tap), ..kernel });
        let injects = self.onward(&[take(0)], Channel::SenderPeer, (costs.ipi_ns as u32, 0), !loses);
        for cpu in 0..machine.topology.cpus() {
            let inbox = Some(tap + 1 + cpu);
            add("kworker", injects.clone(), TaskSpec { inbox, pinned: Some(cpu), ..kernel });
        }
        load.channels.extend([ring(VIRTIO_RING), ring(TAP_RING)]);
        // Work items wait in a list without an end.
        load.channels.extend((0..machine.topology.cpus()).map(|_| ring(u32::MAX)));
        Channel::Of(first)
    }

    /// All tasks: of each flow the sender and the receiver, one after the other; then those of switches.
    pub(crate) fn load(&self, machine: &Machine) -> Result<Load, Problem> {
        let at = Placement::of(self.placement, machine.topology)?;
        let costs = &machine.costs;
        let flows = self.there + self.back;
        let name = |name: &str| Program { name: name.to_owned(), role: "load".to_owned(), ops: Vec::new() };
        let mut load = Load {
            programs: ["client-sender", "server-receiver", "server-sender", "client-receiver"].map(name).into(),
            marks: 4,
            ..Load::default()
        };
        let credits = ChannelSpec::from(self.window() + 1);
        for flow in 0..flows {
            let (sends, receives, placement) = match flow < self.there {
                true => (CLIENT_SENDS, SERVER_RECEIVES, (at.client, at.server)),
                false => (SERVER_SENDS, CLIENT_RECEIVES, (at.server, at.client)),
            };
            let process = |number| if self.processes { number } else { 0 };
            let (inbox, acknowledgements) = (2 * flow, 2 * flow + 1);
            load.tasks.push(TaskSpec {
                inbox: Some(acknowledgements),
                peer: Some(inbox),
                pinned: placement.0,
                ..TaskSpec::new(sends as u32, process(2 * flow))
            });
            load.tasks.push(TaskSpec {
                inbox: Some(inbox),
                pinned: placement.1,
                ..TaskSpec::new(receives as u32, process(2 * flow + 1))
            });
            load.channels.extend([self.inbox(), credits]);
        }
        for (of_direction, sends, receives) in
            [(self.there, CLIENT_SENDS, SERVER_RECEIVES), (self.back, SERVER_SENDS, CLIENT_RECEIVES)]
        {
            if of_direction > 0 {
                let to = if self.way == Way::Sender { Channel::Peer } else { self.switch(&mut load, machine) };
                load.programs[sends].ops = self.sender(costs, to);
                load.programs[receives].ops = self.receiver(costs);
            }
        }
        Ok(load)
    }

    /// What was seen of the client and of the server's tasks.
    pub(crate) fn ends(seen: &WindowStats) -> [Account; 2] {
        let of = |programs: [usize; 2]| account(&programs.map(|program| seen.roles[program].clone()));
        [of([CLIENT_SENDS, CLIENT_RECEIVES]), of([SERVER_SENDS, SERVER_RECEIVES])]
    }

    /// Segments that each flow received.
    pub(crate) fn received<'a>(&self, seen: &'a WindowStats) -> impl Iterator<Item = u64> + Clone + 'a {
        let flows = (self.there + self.back) as usize;
        seen.by_task[..2 * flows].chunks(2).map(|tasks| tasks[1])
    }
}
