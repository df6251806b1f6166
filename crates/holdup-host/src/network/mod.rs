//! Networks of holdup's own on one host: two network namespaces with a wire or a switch between them.
//!
//! The namespaces have no name and nothing is made in the host's own one, so that nothing can be left behind: a network
//! ends with the process that made it, however that ends. What is sent in it never leaves the host.

mod counters;
mod link;
mod namespace;
mod netlink;
mod openvswitch;
mod packet_diag;
mod packet_ring;
mod tasks_namespaces;
mod tcp_diag;
mod wired;

pub use counters::{Counters, ProtocolCounters, Softnet};
pub use link::LinkCounters;
pub use packet_ring::{Capturing, Packet, PacketRing, RingCounts};
pub use tasks_namespaces::TasksNamespace;
pub use tcp_diag::{TCP_FIELDS, TcpField, TcpInfo, TcpUnit, owner_of_tcp};
pub use wired::{LINK_PREFIX, LinkEnd, Wired, mac_of, wire};

use crate::Host;
use holdup_model::Problem;
use holdup_model::catalogue::Availability;
use link::{Mac, VethEnd};
use namespace::Namespace;
use netlink::Netlink;
use openvswitch::{Datapath, Programs, Switch};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What lies between the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topology {
    /// The loopback link of the host itself, with all its other traffic; nothing is made.
    Host,
    /// The loopback link of one new namespace for both ends.
    Loopback,
    /// Two namespaces and a veth pair between them, veth(4).
    Veth,
    /// Two namespaces, each with a veth pair to a Linux bridge in a third one.
    Bridge,
    /// Two namespaces, each with a veth pair to an Open vSwitch in a third one, with its own daemons: the kernel's
    /// datapath where the kernel has it, else the one in user space; [`Network::facts`] names it.
    OpenVSwitch,
}

impl Topology {
    pub const ALL: [Topology; 5] =
        [Topology::Host, Topology::Loopback, Topology::Veth, Topology::Bridge, Topology::OpenVSwitch];

    /// Its word in plans: `host`, `loopback`, `veth`, `bridge`, `openvswitch`.
    pub const fn word(self) -> &'static str {
        match self {
            Topology::Host => "host",
            Topology::Loopback => "loopback",
            Topology::Veth => "veth",
            Topology::Bridge => "bridge",
            Topology::OpenVSwitch => "openvswitch",
        }
    }

    pub fn parse(word: &str) -> Result<Self, Problem> {
        Self::ALL.into_iter().find(|topology| topology.word() == word).ok_or_else(|| {
            Problem::usage(format!("network `{word}`"), "there is no such network")
                .hint(format!("give one of {}", Self::ALL.map(Self::word).join(", ")))
        })
    }
}

/// What a network can be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The longest IP packet of the links in bytes, 68 to 65535; `None` for the kernel's own value, which is 1500 for
    /// veth and 65536 for loopback.
    pub mtu: Option<u32>,
}

/// The least and the greatest MTU (`ETH_MIN_MTU`, `ETH_MAX_MTU` of include/uapi/linux/if_ether.h, v6.18).
const MTU: std::ops::RangeInclusive<u32> = 68..=65535;
const DEFAULT_MTU: u32 = 1500;

/// One of the two ends of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The one that clients are at by custom.
    Client,
    /// The one that servers are at by custom.
    Server,
}

/// Where a socket of one end is made. Clones stand for the same namespace and keep it alive.
#[derive(Debug, Clone)]
pub struct Endpoint {
    namespace: Option<Arc<Namespace>>,
    address: IpAddr,
}

impl Endpoint {
    /// The address that a socket of this end has and is reached by from the other end.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The open file of the namespace, `None` where it is the host's own.
    pub fn namespace(&self) -> Option<BorrowedFd<'_>> {
        self.namespace.as_ref().map(|namespace| namespace.fd())
    }

    /// Runs something there, in a new thread. A socket that is made there stays there wherever it is used
    /// afterwards, and keeps the namespace alive. A panic of `job` continues in the caller.
    ///
    /// # Errors
    /// When the thread cannot be made or may not enter.
    pub fn within<T: Send>(&self, job: impl FnOnce() -> T + Send) -> Result<T, Problem> {
        match &self.namespace {
            None => Ok(job()),
            Some(namespace) => namespace.within(job).map_err(|e| failed("the namespace cannot be entered", &e)),
        }
    }

    /// Moves the calling thread to this place for good: the whole process where it has one thread only, as after a fork.
    /// Makes one system call and takes no memory where that succeeds.
    pub fn enter(&self) -> io::Result<()> {
        self.namespace.as_ref().map_or(Ok(()), |namespace| namespace.enter())
    }
}

/// A namespace of a network with what is counted in it.
#[derive(Debug)]
struct Member {
    namespace: Option<Arc<Namespace>>,
    netlink: Mutex<Netlink>,
    /// The links by their names, and what they are called in [`Counters::links`].
    links: Vec<(&'static str, &'static str)>,
}

impl Member {
    /// A new namespace with its loopback link up.
    fn make() -> io::Result<Self> {
        let namespace = Namespace::make()?;
        let mut netlink = namespace.within(Netlink::open)??;
        link::set_up(&mut netlink, LOOPBACK_INDEX)?;
        Ok(Member { namespace: Some(Arc::new(namespace)), netlink: Mutex::new(netlink), links: Vec::new() })
    }

    /// The namespace of the calling thread.
    fn host() -> io::Result<Self> {
        Ok(Member { namespace: None, netlink: Mutex::new(Netlink::open()?), links: Vec::new() })
    }

    fn netlink(&self) -> std::sync::MutexGuard<'_, Netlink> {
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, address: Ipv4Addr) -> Endpoint {
        Endpoint { namespace: self.namespace.clone(), address: IpAddr::V4(address) }
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        let namespace = self.namespace.as_ref().ok_or_else(|| io::Error::other("it is the host's own namespace"))?;
        Ok(namespace.fd())
    }

    /// Waits until every link lets packets through. The kernel puts a link's queue in force some time after its peer
    /// came up, and drops what is sent before that (`net/core/link_watch.c`, v6.18).
    fn wait_for_links(&self) -> io::Result<()> {
        let deadline = Instant::now() + LINKS_UP;
        loop {
            let found = link::links(&mut self.netlink())?;
            let runs = |name: &str| found.iter().any(|link| link.name == name && link.is_running);
            let Some((name, _)) = self.links.iter().find(|(name, _)| !runs(name)) else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("link {name} did not come up within {} s", LINKS_UP.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The loopback link is the first one of every namespace (`net/core/net_namespace.c`; `LOOPBACK_IFINDEX`).
const LOOPBACK_INDEX: u32 = 1;
const LINKS_UP: Duration = Duration::from_secs(10);
const PREFIX: u8 = 24;
/// The addresses within a network; nothing else is in its namespaces, so that they can be the same for all.
const CLIENT: Side = Side { number: 1, port: "client", place: "switch.client" };
const SERVER: Side = Side { number: 2, port: "server", place: "switch.server" };
const LINK: &str = "eth0";

/// What one end is called.
struct Side {
    /// The number in its addresses and indexes.
    number: u8,
    /// The name of its link in the switch.
    port: &'static str,
    /// What that is called in [`Counters::links`].
    place: &'static str,
}

impl Side {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 104, 0, self.number)
    }

    fn mac(&self) -> Mac {
        [2, 0, 0, 104, 0, self.number]
    }

    fn index(&self) -> u32 {
        10 + u32::from(self.number)
    }

    fn port_index(&self) -> u32 {
        20 + u32::from(self.number)
    }

    fn link(&self) -> VethEnd<'static> {
        VethEnd { name: LINK, index: self.index(), mac: self.mac() }
    }

    fn port_link(&self) -> VethEnd<'static> {
        VethEnd { name: self.port, index: self.port_index(), mac: [2, 0, 0, 104, 1, self.number] }
    }
}

/// A network between two ends. It ends when it, all places cloned from it and all sockets in it are dropped, or with
/// the process.
///
/// The ends of `veth`, `bridge` and `openvswitch` have one IPv4 address each and know each other's Ethernet address
/// from the start, and IPv6 is silent on their links: a link counts the packets of the load alone. Offloads are as the
/// kernel gives them. Sysctls below `net.` that belong to a namespace begin with the kernel's values or with those of
/// the initial namespace, as the kernel decides for each (`net/ipv4/tcp_ipv4.c:tcp_sk_init`, v6.18).
///
/// A child that was forked without exec must not drop one: it would wait for threads that it does not have.
pub struct Network {
    host: Host,
    topology: Topology,
    mtu: u32,
    client: Endpoint,
    server: Endpoint,
    /// The client's namespace first, then the server's if it is another one, then that of the switch.
    members: Vec<Member>,
    switch: Option<Switch>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = (self.topology, self.mtu, &self.members);
        f.debug_tuple("Network").field(&shown).finish()
    }
}

impl Network {
    /// Makes one and waits until packets go through.
    ///
    /// # Errors
    /// When the host is a captured tree, this process may not make namespaces, or the kernel lacks what is needed.
    pub fn make(topology: Topology, options: Options, host: &Host) -> Result<Self, Problem> {
        if !host.is_live() {
            return Err(Problem::host(format!("network {}", topology.word()), "the host is a captured tree"));
        }
        if let Some(mtu) = options.mtu.filter(|mtu| !MTU.contains(mtu)) {
            let allowed = format!("an MTU is {} to {} bytes", MTU.start(), MTU.end());
            return Err(Problem::usage(format!("mtu {mtu}"), allowed));
        }
        if topology == Topology::Host && options.mtu.is_some() {
            return Err(Problem::usage("mtu with network host", "the host's own loopback link is not changed")
                .hint("leave the mtu out, or take network loopback"));
        }
        let made = match topology {
            Topology::Host => Member::host().and_then(|member| Self::one(topology, member, host)),
            Topology::Loopback => Self::loopback(options, host),
            Topology::Veth => Self::veth(options.mtu.unwrap_or(DEFAULT_MTU), host),
            Topology::Bridge => Self::bridge(options.mtu.unwrap_or(DEFAULT_MTU), host),
            Topology::OpenVSwitch => return Self::open_vswitch(options.mtu.unwrap_or(DEFAULT_MTU), host),
        };
        made.map_err(|e| not_made(topology, &e))
    }

    fn loopback(options: Options, host: &Host) -> io::Result<Self> {
        let member = Member::make()?;
        if let Some(mtu) = options.mtu {
            link::set_mtu(&mut member.netlink(), LOOPBACK_INDEX, mtu)?;
        }
        Self::one(Topology::Loopback, member, host)
    }

    fn one(topology: Topology, mut member: Member, host: &Host) -> io::Result<Self> {
        let loopback = link::links(&mut member.netlink())?.into_iter().find(|link| link.index == LOOPBACK_INDEX);
        let mtu = loopback.and_then(|link| link.mtu).unwrap_or_default();
        member.links.push(("lo", "client"));
        let place = member.place(Ipv4Addr::LOCALHOST);
        Ok(Network {
            host: host.clone(),
            topology,
            mtu,
            client: place.clone(),
            server: place,
            members: vec![member],
            switch: None,
        })
    }

    fn veth(mtu: u32, host: &Host) -> io::Result<Self> {
        let (mut client, mut server) = (Member::make()?, Member::make()?);
        link::make_veth(&mut client.netlink(), &CLIENT.link(), &SERVER.link(), server.fd()?, mtu)?;
        connect(&mut client, &CLIENT, &SERVER)?;
        connect(&mut server, &SERVER, &CLIENT)?;
        Self::of(Topology::Veth, mtu, vec![client, server], host)
    }

    fn bridge(mtu: u32, host: &Host) -> io::Result<Self> {
        let members = switched(mtu, |switch| {
            let netlink = &mut switch.netlink();
            link::make_bridge(netlink, SWITCH, SWITCH_INDEX)?;
            link::be_silent(netlink, SWITCH_INDEX)?;
            for side in [&CLIENT, &SERVER] {
                link::join(netlink, side.port_index(), SWITCH_INDEX)?;
            }
            link::set_up(netlink, SWITCH_INDEX)
        })?;
        Self::of(Topology::Bridge, mtu, members, host)
    }

    fn open_vswitch(mtu: u32, host: &Host) -> Result<Self, Problem> {
        let programs = Programs::find()?;
        let not_made = |e: io::Error| not_made(Topology::OpenVSwitch, &e);
        let members = switched(mtu, |_| Ok(())).map_err(not_made)?;
        let namespace = members[2].namespace.as_deref().ok_or_else(|| not_made(io::ErrorKind::NotFound.into()))?;
        let switch = Switch::start(programs, namespace, &[CLIENT.port, SERVER.port])?;
        if switch.datapath == Datapath::Netdev {
            for end in members[..2].iter().filter_map(|member| member.namespace.as_ref()) {
                let set = end.within(|| openvswitch::send_whole_checksums(LINK)).and_then(|set| set);
                set.map_err(not_made)?;
            }
        }
        let mut network = Self::of(Topology::OpenVSwitch, mtu, members, host).map_err(not_made)?;
        network.switch = Some(switch);
        Ok(network)
    }

    fn of(topology: Topology, mtu: u32, members: Vec<Member>, host: &Host) -> io::Result<Self> {
        for member in &members {
            member.wait_for_links()?;
        }
        let (client, server) = (members[0].place(CLIENT.address()), members[1].place(SERVER.address()));
        greet(&client, &server)?;
        Ok(Network { host: host.clone(), topology, mtu, client, server, members, switch: None })
    }

    /// One of its ends. Both are the same place where they share a namespace.
    pub fn end(&self, end: End) -> &Endpoint {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    /// What lies between its ends.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// The MTU of its links in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// What a reader of results should know of it: `network`, `network_mtu` in bytes, and of an Open vSwitch
    /// `openvswitch_version` and `openvswitch_datapath` (`system` is the kernel's, `netdev` the one in user space, with
    /// which the ends send without offloads).
    pub fn facts(&self) -> BTreeMap<&'static str, String> {
        let mut facts =
            BTreeMap::from([("network", self.topology.word().to_owned()), ("network_mtu", self.mtu.to_string())]);
        if let Some(switch) = &self.switch {
            facts.insert("openvswitch_version", switch.version.clone());
            facts.insert("openvswitch_datapath", switch.datapath.word().to_owned());
        }
        facts
    }

    /// What the kernel has counted so far.
    pub fn counters(&self) -> Result<Counters, Problem> {
        let client = self.client.within(|| ProtocolCounters::read(&self.host))??;
        let server = match self.members.get(1) {
            None => client.clone(),
            Some(_) => self.server.within(|| ProtocolCounters::read(&self.host))??,
        };
        let mut links = BTreeMap::new();
        for member in &self.members {
            let found = link::links(&mut member.netlink()).map_err(|e| failed("its links cannot be read", &e))?;
            for (name, place) in &member.links {
                let link = found.iter().find(|link| link.name == *name);
                let counters = link.and_then(|link| link.counters);
                let missing = || Problem::host("network of the trial", format!("link {place} has no counters"));
                links.insert(*place, counters.ok_or_else(missing)?);
            }
        }
        let switch = self.switch.as_ref().map_or_else(|| Ok(BTreeMap::new()), |switch| self.switch_losses(switch));
        Ok(Counters { client, server, links, softnet: Softnet::read(&self.host), switch })
    }

    fn switch_losses(&self, switch: &Switch) -> Result<BTreeMap<&'static str, u64>, String> {
        let mut losses = BTreeMap::from([("datapath.lost", switch.lost()?)]);
        if let (Datapath::Netdev, Some(namespace)) = (switch.datapath, &self.members[2].namespace) {
            let asked = namespace.within(|| packet_diag::drops(&mut Netlink::open_sock_diag()?));
            let drops = asked.and_then(|drops| drops).map_err(|e| format!("the switch's packet sockets: {e}"))?;
            for (name, side) in [("client.socket.dropped", &CLIENT), ("server.socket.dropped", &SERVER)] {
                let bound = drops.get(&side.port_index());
                losses
                    .insert(name, *bound.ok_or_else(|| format!("the switch has no packet socket at {}", side.place))?);
            }
        }
        Ok(losses)
    }
}

const SWITCH: &str = "switch0";
const SWITCH_INDEX: u32 = 30;

/// Two ends, each with a veth pair to a third namespace, in which `switch` connects the ports.
fn switched(mtu: u32, make_switch: impl FnOnce(&mut Member) -> io::Result<()>) -> io::Result<Vec<Member>> {
    let (mut client, mut server, mut switch) = (Member::make()?, Member::make()?, Member::make()?);
    for (end, side) in [(&client, &CLIENT), (&server, &SERVER)] {
        switch.links.push((side.port, side.place));
        let netlink = &mut switch.netlink();
        link::make_veth(netlink, &side.port_link(), &side.link(), end.fd()?, mtu)?;
        link::be_silent(netlink, side.port_index())?;
        link::set_up(netlink, side.port_index())?;
    }
    connect(&mut client, &CLIENT, &SERVER)?;
    connect(&mut server, &SERVER, &CLIENT)?;
    make_switch(&mut switch)?;
    Ok(vec![client, server, switch])
}

/// Sends a datagram there and back. A switch so learns where both ends are, which it would not from datagrams that go
/// one way only: it would send every one of them to all of its ports.
fn greet(client: &Endpoint, server: &Endpoint) -> io::Result<()> {
    let socket = |place: &Endpoint| {
        place.namespace.as_ref().map_or_else(
            || Err(io::Error::other("it is the host's own namespace")),
            |namespace| namespace.within(|| UdpSocket::bind((place.address, 0)))?,
        )
    };
    let (client, server) = (socket(client)?, socket(server)?);
    let (at_client, at_server) = (client.local_addr()?, server.local_addr()?);
    let mut got = [0; 8];
    for (from, to, target) in [(&client, &server, at_server), (&server, &client, at_client)] {
        let deadline = Instant::now() + LINKS_UP;
        to.set_read_timeout(Some(Duration::from_millis(500)))?;
        loop {
            from.send_to(b"greeting", target)?;
            match to.recv(&mut got) {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::other(format!("no datagram came through within {} s", LINKS_UP.as_secs())));
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Gives an end's link its address and that of the other end, and sets it up.
fn connect(member: &mut Member, own: &Side, other: &Side) -> io::Result<()> {
    member.links.push((LINK, own.port));
    let netlink = &mut member.netlink();
    link::be_silent(netlink, own.index())?;
    link::add_address(netlink, own.index(), own.address(), PREFIX)?;
    link::set_up(netlink, own.index())?;
    link::add_neighbour(netlink, own.index(), other.address(), other.mac())
}

fn failed(what: &str, error: &io::Error) -> Problem {
    Problem::host(format!("network of the trial: {what}"), error.to_string())
}

/// Why there is no network, with a way out where one is known.
fn not_made(topology: Topology, error: &io::Error) -> Problem {
    let problem = |why: String| Problem::host(format!("network {}", topology.word()), why);
    match netlink::errno(error) {
        Some(libc::EPERM | libc::EACCES) => {
            problem("making network namespaces is not permitted: it takes CAP_SYS_ADMIN and CAP_NET_ADMIN".to_owned())
                .hint(
                    "run as root; without knobs that need root, `unshare --user --map-root-user` in front does as well",
                )
        }
        Some(libc::EOPNOTSUPP) => {
            problem(format!("the kernel does not know this kind of link: {error}")).hint(format!(
                "load the module {} or take a kernel that has it",
                if topology == Topology::Bridge { "veth or bridge" } else { "veth" }
            ))
        }
        Some(libc::ENOSPC) => problem("there are as many network namespaces as this user may have".to_owned())
            .hint("raise the sysctl user.max_net_namespaces"),
        _ => problem(error.to_string()),
    }
}

/// Whether a network could be made here, asked by making one and letting it end. Of Open vSwitch no program is started:
/// it is seen whether its programs are there, and what they need of the kernel.
pub fn probe(topology: Topology, host: &Host) -> Availability {
    let asked = match topology {
        Topology::OpenVSwitch => may_have_open_vswitch(host),
        other => Network::make(other, Options::default(), host).map(|_| ()),
    };
    match asked {
        Ok(()) => Availability::Ready,
        Err(problem) => Availability::Unavailable { reason: problem.why, remedy: problem.hint },
    }
}

fn may_have_open_vswitch(host: &Host) -> Result<(), Problem> {
    let network = Network::make(Topology::Veth, Options::default(), host)?;
    Programs::find()?;
    let chosen = network.members[0].namespace.as_deref().map(Datapath::choose).transpose();
    let datapath = chosen.map_err(|e| not_made(Topology::OpenVSwitch, &e))?;
    // The datapath in user space gives its bridge a tap link.
    match host.may_write(TUN) {
        Err(e) if datapath == Some(Datapath::Netdev) => {
            Err(Problem::host(e.to_string(), format!("the kernel has no module openvswitch, and {e}"))
                .hint("load the module openvswitch or tun"))
        }
        _ => Ok(()),
    }
}

const TUN: &str = "/dev/net/tun";
