//! The profile of a few parameters, so that `stream` is one thing with a profile and without.

use super::model::{Flowop, FlowopKind, Group, Options, Profile, Protocol, Repeat, Size, Transaction};
use super::{MOST_DATAGRAM_BYTES, MOST_DURATION_NS, MOST_SIZE_BYTES, MOST_STRANDS};
use holdup_model::Problem;

/// Which way the data goes, seen from the end that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All connections read.
    Read,
    /// All connections write.
    Write,
    /// So many connections write and as many others read, at once.
    Both,
}

/// The parameters of a simple profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple<'a> {
    /// Who is at the far end.
    pub remotehost: &'a str,
    /// How many connections, each with its strand; with [`Mode::Both`] in each direction.
    pub connections: u32,
    /// Whether each strand is a process.
    pub processes: bool,
    /// What they speak.
    pub protocol: Protocol,
    /// The size of one transfer, in bytes.
    pub size_bytes: u64,
    /// Which way.
    pub mode: Mode,
    /// How long, in ns.
    pub duration_ns: u64,
}

impl Profile {
    /// Connects, moves data for the duration, disconnects: three transactions in each strand.
    ///
    /// # Errors
    /// When a number is out of the bounds that hold for profiles that are read.
    pub fn simple(simple: &Simple<'_>) -> Result<Profile, Problem> {
        let kinds: &[FlowopKind] = match simple.mode {
            Mode::Read => &[FlowopKind::Read],
            Mode::Write => &[FlowopKind::Write],
            Mode::Both => &[FlowopKind::Write, FlowopKind::Read],
        };
        let strands = u64::from(simple.connections) * kinds.len() as u64;
        within("connections", strands, MOST_STRANDS)?;
        let most_size = if simple.protocol == Protocol::Udp { MOST_DATAGRAM_BYTES } else { MOST_SIZE_BYTES };
        within("size", simple.size_bytes, most_size)?;
        within("duration in ns", simple.duration_ns, MOST_DURATION_NS)?;
        let groups = kinds.iter().map(|kind| group(simple, *kind)).collect();
        Ok(Profile { name: None, groups, notes: Vec::new() })
    }
}

fn within(name: &str, number: u64, most: u64) -> Result<(), Problem> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    Err(Problem::usage(format!("{name} {number}"), "out of bounds").hint(format!("from 1 to {most}")))
}

fn group(simple: &Simple<'_>, kind: FlowopKind) -> Group {
    let connect = Options {
        remotehost: Some(simple.remotehost.to_owned()),
        protocol: Some(simple.protocol),
        ..Options::default()
    };
    let transfer = Options { size: Some(Size::Fixed(simple.size_bytes)), ..Options::default() };
    let transaction = |repeat, kind, options| Transaction {
        repeat,
        rate_per_s: None,
        flowops: vec![Flowop { kind, options, line: 0 }],
        line: 0,
    };
    let transactions = vec![
        transaction(Repeat::Iterations(1), FlowopKind::Connect, connect),
        transaction(Repeat::Duration(simple.duration_ns), kind, transfer),
        transaction(Repeat::Iterations(1), FlowopKind::Disconnect, Options::default()),
    ];
    Group { name: None, strands: simple.connections, processes: simple.processes, transactions, line: 0 }
}
