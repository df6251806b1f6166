//! The profile of a few parameters, so that `stream` is one thing with a profile and without.

use super::model::{Flowop, FlowopKind, Group, Options, Profile, Protocol, Repeat, Size, Transaction};
use super::{MOST_DATAGRAM_BYTES, MOST_DURATION_NS, MOST_SIZE_BYTES, MOST_STRANDS};
use holdup_model::Problem;

pub use holdup_catalogue::stream::Mode;

/// The parameters of a simple profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple<'a> {
    /// Who is at the server.
    pub remotehost: &'a str,
    /// How many connections, each with its strand; with [`Mode::Both`] in each direction.
    pub connections: u32,
    /// True if each strand is a process.
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

impl Profile {
    /// The parameters with which [`Profile::simple`] makes this profile, names and notes apart; `None` where it does
    /// anything else.
    pub fn as_simple(&self) -> Option<Simple<'_>> {
        let group = self.groups.first()?;
        let [opens, moves, _] = group.transactions.as_slice() else { return None };
        let (connect, transfer) = (&opens.flowops.first()?.options, moves.flowops.first()?);
        let mode = match (transfer.kind, self.groups.len()) {
            (FlowopKind::Read, 1) => Mode::Read,
            (FlowopKind::Write, 1) => Mode::Write,
            (FlowopKind::Write, 2) => Mode::Both,
            _ => return None,
        };
        let (Some(Size::Fixed(size_bytes)), Repeat::Duration(duration_ns)) = (transfer.options.size, moves.repeat)
        else {
            return None;
        };
        let simple = Simple {
            remotehost: connect.remotehost.as_deref()?,
            connections: group.strands,
            processes: group.processes,
            protocol: connect.protocol?,
            size_bytes,
            mode,
            duration_ns,
        };
        (Profile::simple(&simple).ok()?.groups == self.bare()).then_some(simple)
    }

    /// Its groups without names and places.
    fn bare(&self) -> Vec<Group> {
        let mut groups = self.groups.clone();
        for group in &mut groups {
            (group.name, group.line) = (None, 0);
            for transaction in &mut group.transactions {
                transaction.line = 0;
                transaction.flowops.iter_mut().for_each(|flowop| flowop.line = 0);
            }
        }
        groups
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_profiles_are_recognised() {
        for mode in [Mode::Read, Mode::Write, Mode::Both] {
            let simple = Simple {
                remotehost: "server",
                connections: 50,
                processes: mode == Mode::Both,
                protocol: Protocol::Tcp,
                size_bytes: 65_536,
                mode,
                duration_ns: 1_000_000,
            };
            let profile = Profile::simple(&simple).expect("in bounds");
            assert_eq!(profile.as_simple(), Some(simple));
            let mut other = profile;
            other.groups[0].transactions[1].rate_per_s = Some(7);
            assert_eq!(other.as_simple(), None, "{mode:?}");
        }
    }

    #[test]
    fn the_profile_of_the_plans_is_simple() {
        let text = include_bytes!("../../../../plans/uperf/streams-read.xml");
        let variables = |name: &str| {
            let known = [("conns", "50"), ("h", "server"), ("proto", "tcp"), ("duration", "2s")];
            known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let profile = Profile::read("streams-read.xml", text, &variables).expect("it is good");
        let simple = profile.as_simple().expect("it is simple");
        assert_eq!((simple.connections, simple.size_bytes, simple.mode), (50, 65_536, Mode::Read));
    }
}
