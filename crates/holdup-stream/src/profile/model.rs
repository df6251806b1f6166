//! What a profile says, without text: names are looked up, units are resolved.

/// A whole profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name, when it has one.
    pub name: Option<String>,
    /// What runs side by side.
    pub groups: Vec<Group>,
    /// What stands in it and has no effect, in the order of lines.
    pub notes: Vec<Note>,
}

/// Something in a profile that is read and has no effect, or another one than it seems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The line, from 1.
    pub line: u32,
    /// The thing and what becomes of it.
    pub text: String,
}

/// A number of equal strands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name, when it has one.
    pub name: Option<String>,
    /// How many strands.
    pub strands: u32,
    /// True if each strand is a process (`nprocs`); threads of one process otherwise (`nthreads`).
    pub processes: bool,
    /// What each strand does, one after another. The n-th of all groups begin together.
    pub transactions: Vec<Transaction>,
    /// Where it stands, from 1; 0 when it stands in no file.
    pub line: u32,
}

/// How long a transaction lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// That number of times, which may be 0.
    Iterations(u64),
    /// Until that time, in ns, has passed since all strands began it; what is under way then is aborted.
    Duration(u64),
}

/// Flowops that are repeated together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// How long it lasts.
    pub repeat: Repeat,
    /// At most that number of times per second and strand; only with a duration.
    pub rate_per_s: Option<u32>,
    pub flowops: Vec<Flowop>,
    /// Where it stands, from 1; 0 when it stands in no file.
    pub line: u32,
}

/// One thing that a strand does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowop {
    pub kind: FlowopKind,
    pub options: Options,
    /// Where it stands, from 1; 0 when it stands in no file.
    pub line: u32,
}

/// What a flowop does. uperf 1.0.8 has no `sendto`, `sendmsg` and `recvmsg`; they are the calls of those names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowopKind {
    /// Opens a connection; with UDP the server learns the address by one datagram.
    Connect,
    /// Waits for a connection.
    Accept,
    /// Closes a connection.
    Disconnect,
    /// Reads until all of the size is there.
    Read,
    /// Writes until all of the size is taken.
    Write,
    /// `recv`, until all of the size is there.
    Recv,
    /// `send`, until all of the size is taken.
    Send,
    /// `sendto`, until all of the size is taken.
    Sendto,
    /// `recvmsg`, until all of the size is there.
    Recvmsg,
    /// `sendmsg`, until all of the size is taken.
    Sendmsg,
    /// Sends one file that is picked at random.
    Sendfile,
    /// Sends files that are picked at random.
    Sendfilev,
    /// Sleeps or computes.
    Think,
    /// Does nothing.
    Nop,
}

impl FlowopKind {
    /// All of them by name, in lower case.
    pub const ALL: &'static [(&'static str, FlowopKind)] = &[
        ("connect", FlowopKind::Connect),
        ("accept", FlowopKind::Accept),
        ("disconnect", FlowopKind::Disconnect),
        ("read", FlowopKind::Read),
        ("write", FlowopKind::Write),
        ("recv", FlowopKind::Recv),
        ("send", FlowopKind::Send),
        ("sendto", FlowopKind::Sendto),
        ("recvmsg", FlowopKind::Recvmsg),
        ("sendmsg", FlowopKind::Sendmsg),
        ("sendfile", FlowopKind::Sendfile),
        ("sendfilev", FlowopKind::Sendfilev),
        ("think", FlowopKind::Think),
        ("nop", FlowopKind::Nop),
    ];

    /// Its name in a profile.
    pub fn name(self) -> &'static str {
        FlowopKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// True if it makes a connection.
    pub fn opens(self) -> bool {
        matches!(self, FlowopKind::Connect | FlowopKind::Accept)
    }

    /// True if it needs a connection that is open.
    pub fn uses_connection(self) -> bool {
        !self.opens() && !matches!(self, FlowopKind::Think | FlowopKind::Nop)
    }

    /// True if it sends from memory.
    pub fn sends(self) -> bool {
        matches!(self, FlowopKind::Write | FlowopKind::Send | FlowopKind::Sendto | FlowopKind::Sendmsg)
    }

    pub fn receives(self) -> bool {
        matches!(self, FlowopKind::Read | FlowopKind::Recv | FlowopKind::Recvmsg)
    }

    pub fn sends_files(self) -> bool {
        matches!(self, FlowopKind::Sendfile | FlowopKind::Sendfilev)
    }
}

pub use holdup_catalogue::stream::Protocol;

/// How much one transfer carries, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Always so much.
    Fixed(u64),
    /// Evenly drawn for each transfer, bounds included. Who receives asks for `most` and takes what one call brings.
    Random {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
}

impl Size {
    /// The largest that it can be, in bytes.
    pub fn most(self) -> u64 {
        match self {
            Size::Fixed(bytes) => bytes,
            Size::Random { most, .. } => most,
        }
    }
}

/// The options of a flowop; which of them matter depends on its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `remotehost`: the other host; in lower case, unless a variable held it.
    pub remotehost: Option<String>,
    /// `localhost`: the own address; uperf 1.0.8 uses it for RDS only.
    pub localhost: Option<String>,
    /// `protocol`.
    pub protocol: Option<Protocol>,
    /// `port`: where to listen; any that is free otherwise.
    pub port: Option<u16>,
    /// `conn`: the connection's name, from 1; 0 is the one without a name.
    pub conn: u32,
    /// `wndsz`: both socket buffers, in bytes, which ends their tuning by the kernel (socket(7)).
    pub wndsz: Option<u64>,
    /// `size`. Of a file that is sent: the size of its pieces; in one piece otherwise.
    pub size: Option<Size>,
    /// `rsize`: what the server takes in one transfer, in bytes; only when it is above `size`.
    pub rsize: Option<u64>,
    /// `count`: how often the flowop runs in one turn of its transaction; 0 is never.
    pub count: u64,
    /// `repeat`: how many datagrams one run moves; only with UDP.
    pub repeat: u64,
    /// `batch_size`: messages per call; uperf 1.0.8 uses it for SCTP only.
    pub batch_size: u64,
    /// `duration` of a think, in ns.
    pub duration_ns: Option<u64>,
    /// `timeout` of a read (and of a write with UDP), in ns; poll(2) is asked first.
    pub timeout_ns: Option<u64>,
    /// `nfiles`: how many files one `sendfilev` sends.
    pub nfiles: Option<u64>,
    /// `dir`: where the files of `sendfile` and `sendfilev` are, searched with all folders below.
    pub dir: Option<String>,
    /// `tcp_nodelay` (tcp(7)).
    pub tcp_nodelay: bool,
    /// `canfail`: an error does not end the strand.
    pub canfail: bool,
    /// `non_blocking`; only with UDP.
    pub non_blocking: bool,
    /// `busy`: a think computes; it sleeps otherwise (`idle`).
    pub busy: bool,
    /// `cc`: the congestion control (tcp(7): `TCP_CONGESTION`).
    pub cc: Option<String>,
    /// `stack`: the TCP of FreeBSD; no effect on Linux.
    pub stack: Option<String>,
    /// `bblog`: the log of FreeBSD's TCP; no effect on Linux.
    pub bblog: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            remotehost: None,
            localhost: None,
            protocol: None,
            port: None,
            conn: 0,
            wndsz: None,
            size: None,
            rsize: None,
            count: 1,
            repeat: 1,
            batch_size: 1,
            duration_ns: None,
            timeout_ns: None,
            nfiles: None,
            dir: None,
            tcp_nodelay: false,
            canfail: false,
            non_blocking: false,
            busy: false,
            cc: None,
            stack: None,
            bblog: None,
        }
    }
}

impl Profile {
    /// How many strands there are in all groups.
    pub fn strands(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.strands)).sum()
    }

    /// All flowops in their order.
    pub fn flowops(&self) -> impl Iterator<Item = &Flowop> {
        self.groups.iter().flat_map(|group| &group.transactions).flat_map(|transaction| &transaction.flowops)
    }
}
