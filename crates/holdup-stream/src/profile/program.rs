//! A group as the engine runs it: names are numbers, sizes are bytes, every decision that a profile allows is made.
//!
//! [`Program::of`] turns a group into phases of steps, one step for each flowop in their order, so that the n-th step
//! here and the n-th of the mirrored group face each other. A strand keeps its connections in [`Connections`].

use super::model::{Flowop, FlowopKind, Group, Options, Protocol, Repeat, Size};
use holdup_model::Problem;

mod connections;

pub use connections::Connections;

/// What each strand of a group does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// How many strands.
    pub strands: u32,
    pub processes: bool,
    /// How many names of connections there are; a strand may have several connections under each.
    pub slots: u16,
    /// What connections are like, for [`Action::Open`].
    pub endpoints: Vec<Endpoint>,
    /// What files are sent, for [`Action::SendFiles`].
    pub files: Vec<Files>,
    /// What a strand does, one after another; the n-th phases of all programs begin together.
    pub phases: Vec<Phase>,
    /// The largest transfer, in bytes: what a strand's buffer must hold.
    pub buffer_bytes: u64,
    /// How many connections a strand may have open at the same time; `None` when it opens more the longer it runs.
    pub most_open: Option<u64>,
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// How long it lasts.
    pub repeat: Repeat,
    /// At most that number of turns per second and strand. uperf's sender runs half of them, rounded down but at least one,
    /// in one go each half second; its server spaces them evenly and spins between them (uperf 1.0.8: rate.c).
    pub rate_per_s: Option<u32>,
    /// What one turn does.
    pub steps: Vec<Step>,
}

/// A flowop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub action: Action,
    /// How often in one turn; may be 0.
    pub count: u64,
    /// True if a failure is counted and passed over.
    pub can_fail: bool,
    /// The line of the profile, 0 when there is none.
    pub line: u32,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Makes a connection.
    Open {
        slot: u16,
        /// True if it waits for one; it calls otherwise. uperf waits for 10 s (uperf 1.0.8: generic.c).
        accepts: bool,
        /// The place in [`Program::endpoints`].
        endpoint: u16,
    },
    /// Closes the current connection of a slot.
    Close {
        slot: u16,
    },
    /// Sends from memory.
    Send(Transfer),
    Receive(Transfer),
    SendFiles {
        slot: u16,
        /// The place in [`Program::files`].
        files: u16,
    },
    /// Sleeps, ns.
    Sleep(u64),
    /// Computes, ns.
    Compute(u64),
    Nothing,
}

/// One transfer of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The slot of the connection.
    pub slot: u16,
    /// The system call.
    pub call: Call,
    /// The smallest size, in bytes.
    pub least: u32,
    /// The largest size, in bytes; the same as `least` unless a sender draws.
    pub most: u32,
    /// True if what one call moves is enough; otherwise it continues until all of the size is moved. Datagrams that are
    /// shorter than the size add up as well.
    pub once: bool,
    /// How many datagrams one run moves; 1 unless the protocol is UDP.
    pub datagrams: u32,
    /// How long poll(2) is asked before the call, ms; where it ends without an event, the step has failed.
    pub timeout_ms: Option<u32>,
    /// True if the call is tried before poll(2) is asked; only with UDP.
    pub non_blocking: bool,
}

/// A system call that moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `read` or `write`; with UDP `recvfrom` or `sendto`, as the server is not connected.
    Plain,
    /// `recv` or `send`.
    Socket,
    /// `recvfrom` or `sendto`.
    Address,
    /// `recvmsg` or `sendmsg`.
    Message,
}

/// What a connection is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Who is at the other end; not known to a server.
    pub host: Option<String>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where to listen, or any that is free.
    pub port: Option<u16>,
    /// Both socket buffers in bytes, set before connecting and listening; left to the kernel otherwise.
    pub window_bytes: Option<u64>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// `O_NONBLOCK`; only with UDP.
    pub non_blocking: bool,
}

/// What files are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The folder that is searched with all below it.
    pub dir: String,
    /// How many files one run picks, each at random.
    pub files: u64,
    /// The size of the pieces, in bytes; whole files otherwise.
    pub piece_bytes: Option<u64>,
}

impl Transfer {
    /// The size of one transfer in bytes, evenly drawn with the help of a random number.
    #[inline]
    pub fn draw(&self, random: u64) -> usize {
        let span = u64::from(self.most - self.least) + 1;
        // The high half of a product draws as evenly as a division and takes a fraction of its time.
        self.least as usize + ((u128::from(random) * u128::from(span)) >> 64) as usize
    }
}

impl Program {
    /// The program of a group.
    ///
    /// # Errors
    /// When a flowop lacks what it needs, which a profile that was read has.
    pub fn of(group: &Group) -> Result<Program, Problem> {
        let mut compiler = Compiler::default();
        let mut phases = Vec::new();
        for transaction in &group.transactions {
            let steps = transaction.flowops.iter().map(|flowop| compiler.step(flowop)).collect::<Result<_, _>>()?;
            phases.push(Phase { repeat: transaction.repeat, rate_per_s: transaction.rate_per_s, steps });
        }
        Ok(Program {
            strands: group.strands,
            processes: group.processes,
            slots: index(compiler.slots.len())?,
            endpoints: compiler.endpoints,
            files: compiler.files,
            buffer_bytes: compiler.buffer_bytes,
            most_open: most_open(&phases),
            phases,
        })
    }
}

/// What is collected while flowops become steps.
#[derive(Default)]
struct Compiler {
    /// The names of connections with the protocol that they were last opened with.
    slots: Vec<(u32, Option<Protocol>)>,
    endpoints: Vec<Endpoint>,
    files: Vec<Files>,
    buffer_bytes: u64,
}

impl Compiler {
    fn step(&mut self, flowop: &Flowop) -> Result<Step, Problem> {
        let o = &flowop.options;
        let think_ns = o.duration_ns.unwrap_or(0);
        let action = match flowop.kind {
            kind if kind.opens() => self.open(flowop, kind == FlowopKind::Accept)?,
            FlowopKind::Disconnect => Action::Close { slot: self.slot(o.conn)? },
            kind if kind.sends() => Action::Send(self.transfer(flowop)?),
            kind if kind.receives() => Action::Receive(self.transfer(flowop)?),
            kind if kind.sends_files() => self.send_files(flowop)?,
            FlowopKind::Think if o.busy => Action::Compute(think_ns),
            FlowopKind::Think => Action::Sleep(think_ns),
            _ => Action::Nothing,
        };
        Ok(Step { action, count: o.count, can_fail: o.canfail, line: flowop.line })
    }

    fn open(&mut self, flowop: &Flowop, accepts: bool) -> Result<Action, Problem> {
        let o = &flowop.options;
        let Some(protocol) = o.protocol else { return Err(lacks(flowop, "protocol")) };
        let slot = self.slot(o.conn)?;
        self.slots[usize::from(slot)].1 = Some(protocol);
        let endpoint = Endpoint {
            host: o.remotehost.clone(),
            protocol,
            port: o.port,
            window_bytes: o.wndsz,
            nodelay: o.tcp_nodelay && protocol == Protocol::Tcp,
            congestion: o.cc.clone().filter(|_| protocol == Protocol::Tcp),
            non_blocking: o.non_blocking && protocol == Protocol::Udp,
        };
        Ok(Action::Open { slot, accepts, endpoint: place(&mut self.endpoints, endpoint)? })
    }

    fn transfer(&mut self, flowop: &Flowop) -> Result<Transfer, Problem> {
        let o = &flowop.options;
        let Some(size) = o.size else { return Err(lacks(flowop, "size")) };
        self.buffer_bytes = self.buffer_bytes.max(size.most());
        let slot = self.slot(o.conn)?;
        let is_udp = self.slots[usize::from(slot)].1 == Some(Protocol::Udp);
        let bytes = |n: u64| {
            u32::try_from(n).map_err(|_| Problem::usage(format!("size {n}"), "too large").hint("at most 4294967295"))
        };
        let (least, most) = match size {
            Size::Random { least, most } if flowop.kind.sends() => (least, most),
            size => (size.most(), size.most()),
        };
        let call = match flowop.kind {
            FlowopKind::Recv | FlowopKind::Send => Call::Socket,
            FlowopKind::Sendto => Call::Address,
            FlowopKind::Recvmsg | FlowopKind::Sendmsg => Call::Message,
            _ => Call::Plain,
        };
        Ok(Transfer {
            slot,
            call,
            least: bytes(least)?,
            most: bytes(most)?,
            once: matches!(size, Size::Random { .. }),
            datagrams: if is_udp { u32::try_from(o.repeat).unwrap_or(u32::MAX) } else { 1 },
            timeout_ms: timeout_ms(o).filter(|_| is_udp || flowop.kind == FlowopKind::Read),
            non_blocking: o.non_blocking && is_udp,
        })
    }

    fn send_files(&mut self, flowop: &Flowop) -> Result<Action, Problem> {
        let o = &flowop.options;
        let Some(dir) = o.dir.clone() else { return Err(lacks(flowop, "dir")) };
        let piece_bytes = o.size.map(Size::most);
        // In pieces, uperf sends one file also with `nfiles`.
        let is_many = flowop.kind == FlowopKind::Sendfilev && piece_bytes.is_none();
        let files = if is_many { o.nfiles.unwrap_or(1) } else { 1 };
        let slot = self.slot(o.conn)?;
        Ok(Action::SendFiles { slot, files: place(&mut self.files, Files { dir, files, piece_bytes })? })
    }

    fn slot(&mut self, conn: u32) -> Result<u16, Problem> {
        let known = self.slots.iter().position(|(name, _)| *name == conn);
        index(known.unwrap_or_else(|| {
            self.slots.push((conn, None));
            self.slots.len() - 1
        }))
    }
}

/// Poll knows whole ms; uperf does not poll when there is not one.
fn timeout_ms(o: &Options) -> Option<u32> {
    let ms = o.timeout_ns? / 1_000_000;
    u32::try_from(ms).ok().filter(|ms| *ms > 0)
}

/// Where a thing stands in a list, which it is added to when it is new.
fn place<T: PartialEq>(list: &mut Vec<T>, thing: T) -> Result<u16, Problem> {
    let known = list.iter().position(|other| *other == thing);
    index(known.unwrap_or_else(|| {
        list.push(thing);
        list.len() - 1
    }))
}

fn index(at: usize) -> Result<u16, Problem> {
    u16::try_from(at).map_err(|_| {
        Problem::usage(format!("connection {at} of a group"), "too many kinds of connections").hint("at most 65535")
    })
}

fn lacks(flowop: &Flowop, option: &str) -> Problem {
    Problem::usage(format!("flowop {} of line {}", flowop.kind.name(), flowop.line), format!("says no {option}"))
}

/// The most connections that are open at the same time, when every step succeeds.
fn most_open(phases: &[Phase]) -> Option<u64> {
    let (mut open, mut most) = (0_u64, 0_u64);
    for phase in phases {
        let turns = match phase.repeat {
            Repeat::Iterations(0) => continue,
            Repeat::Iterations(turns) => Some(turns),
            Repeat::Duration(_) => None,
        };
        let before = open;
        let mut highest = open;
        for step in &phase.steps {
            match step.action {
                Action::Open { .. } => open = open.saturating_add(step.count),
                Action::Close { .. } => open = open.saturating_sub(step.count),
                _ => {}
            }
            highest = highest.max(open);
        }
        if open > before {
            let more = (open - before).saturating_mul(turns? - 1);
            open = open.saturating_add(more);
            highest = highest.saturating_add(more);
        } else if let Some(turns) = turns {
            open = before.saturating_sub((before - open).saturating_mul(turns));
        }
        most = most.max(highest);
    }
    Some(most)
}
