//! What the server of a profile runs (uperf 1.0.8: workorder.c, `group_opposite` and `optimize_txn_for_slave`;
//! handshake.c, `tx_group_t` and `rx_group_t`; slave.c).

use super::model::{Flowop, FlowopKind, Group, Profile, Size, Transaction};

/// What the receiver asks for with one call when files come.
const FILE_PIECE_BYTES: u64 = 64 << 10;

impl FlowopKind {
    /// What the server does meanwhile. Closing, thinking and nothing are done at both ends.
    pub fn mirrored(self) -> FlowopKind {
        match self {
            FlowopKind::Connect => FlowopKind::Accept,
            FlowopKind::Accept => FlowopKind::Connect,
            FlowopKind::Read => FlowopKind::Write,
            FlowopKind::Write | FlowopKind::Sendfile | FlowopKind::Sendfilev => FlowopKind::Read,
            FlowopKind::Recv => FlowopKind::Send,
            FlowopKind::Send | FlowopKind::Sendto => FlowopKind::Recv,
            FlowopKind::Recvmsg => FlowopKind::Sendmsg,
            FlowopKind::Sendmsg => FlowopKind::Recvmsg,
            same @ (FlowopKind::Disconnect | FlowopKind::Think | FlowopKind::Nop) => same,
        }
    }
}

impl Profile {
    /// What the server runs: the same groups with each flowop turned around, always threads. Its strands do not know
    /// the client's address from here: `remotehost` is what `localhost` was, mostly nothing.
    #[must_use]
    pub fn mirrored(&self) -> Profile {
        Profile { name: self.name.clone(), groups: self.groups.iter().map(mirrored).collect(), notes: Vec::new() }
    }
}

fn mirrored(group: &Group) -> Group {
    let transaction = |client: &Transaction| Transaction {
        flowops: client.flowops.iter().map(flowop).collect(),
        repeat: client.repeat,
        rate_per_s: client.rate_per_s,
        line: client.line,
    };
    Group {
        name: group.name.clone(),
        strands: group.strands,
        processes: false,
        transactions: group.transactions.iter().map(transaction).collect(),
        line: group.line,
    }
}

fn flowop(client: &Flowop) -> Flowop {
    let mut options = client.options.clone();
    if client.kind.sends_files() {
        options.size = Some(Size::Fixed(FILE_PIECE_BYTES));
    }
    // Only an `rsize` above the size counts. A count above 1 is cut so that both ends move the same bytes, rounded
    // down; the iterations of a transaction are not, so that a server that reads waits for bytes that never come
    // until the connection closes or the transaction is broken off.
    if let (Some(Size::Fixed(size)), Some(rsize)) = (options.size, options.rsize)
        && rsize > size
    {
        if options.count > 1 {
            options.count = size * options.count / rsize;
        }
        options.size = Some(Size::Fixed(rsize));
    }
    options.remotehost = options.localhost.take();
    options.localhost = options.remotehost.as_ref().and(client.options.remotehost.clone());
    Flowop { kind: client.kind.mirrored(), options, line: client.line }
}
